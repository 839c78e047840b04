"""README.md of an export: what a stranger who finds it wants to know, with the metadata that the hub reads."""

from collections.abc import Sequence

import yaml

from regard import __version__
from regard.api import Run
from regard.exporters.base import Plan
from regard.exporters.proof import TOLERANCE, Proof

CARD = "README.md"


def card(run: Run, name: str, to: str, dtype: str, plan: Plan, proof: Proof | None, notes: Sequence[str]) -> str:
    recipe = run.recipe
    parameters = sum(weights.numel() for weights in run.model.parameters())
    metadata = {"library_name": plan.library, "tags": [*plan.tags, "regard"]}
    if proof is not None:
        metadata |= {"export_check": proof.as_dict()}
    lines = [
        "---",
        yaml.safe_dump({name: value for name, value in metadata.items() if value}, sort_keys=False).rstrip(),
        "---",
        "",
        f"# {name}",
        "",
        recipe.about or f"A model of the job `{recipe.job}`.",
        f"Trained on `{recipe.data.train}`; {parameters:,} parameters.",
        f"Written by regard {__version__} as `{to}`, {dtype}.",
        "",
        *(f"    {line}" for line in plan.how.splitlines()),
        "",
        "## Check",
        "",
        *_checked(proof, dtype),
        *(["", *(f"- {note}" for note in notes)] if notes else []),
    ]
    return "\n".join(lines) + "\n"


def _checked(proof: Proof | None, dtype: str) -> list[str]:
    if proof is None:
        return [
            "**NOT CHECKED.** This export was written with `--no-check`: nobody has seen that it says what the run "
            "says. Export again without it."
        ]
    held = f" Nothing above {TOLERANCE:g} is written." if dtype == "float32" else " The run itself is float32."
    return [f"Loaded by its own runtime and {proof.sentence()}.{held}"]
