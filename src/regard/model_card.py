"""`README.md` of a run: a description for readers who find the folder."""

from pathlib import Path
from typing import Any

from regard import __version__
from regard.job import Job
from regard.next_commands import next_commands
from regard.training.limits import why_ended


def model_card(job: Job, folder: Path, summary: dict[str, Any]) -> str:
    """Return the model card, with known facts only: the recipe's description holds for its own data only."""
    recipe, scores = job.recipe, (summary["best"] or {}).get("scores", {})
    lines = [
        f"# {folder.name}",
        "",
        recipe.about or f"A model of the job `{recipe.job}`.",
        f"Trained on `{recipe.data.train}`.",
        "",
        f"{summary['parameters']:,} parameters; {summary['step']:,} steps in {summary['seconds']:.0f} s, ended by"
        f" {why_ended(summary['stopped_by'], recipe.training)}.",
        "Validation scores, by which the weights were chosen: "
        f"{', '.join(f'{k} {v:.4g}' for k, v in scores.items()) or 'none'}.",
        *_test(summary),
        "",
        *(f"    {command}" for command in next_commands(job, folder, summary)),
        "",
        f"Trained by regard {__version__}. The whole recipe is in `config.yaml`, the curves are in `report.html`.",
        "Weights are safetensors; nothing in this folder can execute.",
    ]
    return "\n".join(lines) + "\n"


def _test(summary: dict[str, Any]) -> list[str]:
    """Return the score on test data, or why there is none."""
    words = (summary.get("test") or {}).get("words", "")
    return ["", f"{words[0].upper()}{words[1:].rstrip('.')}."] if words else []
