"""Check whether a run may resume with a recipe: settings that influence the weights must not differ."""

from typing import Any

from regard.settings.training import FALLING, direction

FREE = {
    *("about", "needs", "expected", "variants", "decoding", "data.test", "data.alignments", "data.cache"),
    *("data.zero_shot",),
    *(f"training.{name}" for name in ("max_steps", "max_epochs", "time_limit", "patience", "save_every", "keep")),
    *(f"training.{name}" for name in ("log_every", "looks", "tensorboard", "score_test", "device", "threads", "shard")),
}
# Some schedules fall until the end of the run, so its limits influence the weights.
ENDS = {"training.max_steps", "training.max_epochs", "training.time_limit"}


def differences(old: dict[str, Any], new: dict[str, Any]) -> list[str]:
    """Return `training.learning_rate: 0.001 → 0.002`, one line for each setting that differs but must not."""
    before, after = _flat(old), _flat(new)
    schedule = after.get("training.schedule")
    found = []
    for name in sorted(before.keys() | after.keys()):
        if before.get(name) == after.get(name):
            continue
        if schedule in FALLING and name in ENDS:
            why = f"training.schedule={schedule} falls until then"
            found.append(f"{name}: {before.get(name)} → {after.get(name)} ({why})")
        elif not any(name == free or name.startswith(free + ".") for free in FREE):
            found.append(f"{name}: {before.get(name)} → {after.get(name)}")
    return found


def _flat(tree: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """Flatten nested sections to dotted names. Tuples and lists are equal here, as in JSON."""
    flat: dict[str, Any] = {}
    for name, value in tree.items():
        if isinstance(value, dict):
            flat |= _flat(value, f"{prefix}{name}.")
        else:
            flat[f"{prefix}{name}"] = list(value) if isinstance(value, tuple) else value
    if flat.get("training.mode") == "auto":
        flat["training.mode"] = direction(str(flat.get("training.metric")))
    return flat
