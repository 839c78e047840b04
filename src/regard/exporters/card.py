"""README.md of an export: what a stranger who finds it wants to know, with the metadata that the hub reads."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import yaml

from regard import __version__
from regard.api import Run
from regard.exporters.base import Plan
from regard.exporters.proof import TOLERANCE, Proof
from regard.exporters.quality import Quality

CARD = "README.md"


@dataclass(frozen=True)
class Checked:
    """What the check found; nothing, if there was none."""

    proof: Proof | None = None
    quality: Quality | None = None
    notes: Sequence[str] = ()

    def as_dict(self) -> dict[str, Any]:
        found = {"check": self.proof and self.proof.as_dict()}
        return found if self.quality is None else {**found, "quality": self.quality.as_dict()}


def card(run: Run, name: str, to: str, dtype: str, plan: Plan, found: Checked, notes: Sequence[str]) -> str:
    recipe = run.recipe
    parameters = sum(weights.numel() for weights in run.model.parameters())
    metadata = {"library_name": plan.library, "tags": [*plan.tags, "regard"]}
    if found.proof is not None:
        metadata |= {"export_check": found.proof.as_dict()}
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
        *_checked(found.proof, dtype),
        *([] if found.quality is None else ["", *found.quality.table(dtype)]),
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
