"""`README.md` of a run: a description for readers who find the folder."""

import shlex
import shutil
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from regard.job import Job
from regard.report.run_files import CHECK, RunFiles
from regard.tasks.final_score import FEW
from regard.training.budget import why_ended
from regard.training.progress import duration
from regard.version import __version__

# Commands to run after training, and the closing message of a training run.
#
# Independent of the job: the job reports whether it has test data, and an input that fits on a command line.

MOST = 3
MORE_TIME = 5  # times as much
MANY = 10_000  # training examples
PRETRAINED = {"text", "image"}  # kinds of inputs with pretrained models


def next_commands(job: Job, folder: Path, summary: dict[str, Any]) -> list[str]:
    """Return the next commands: predict and look on a validation input, evaluate, and serve."""
    run, word = shlex.quote(str(folder)), summary["example"]
    commands = []
    if word is not None:
        commands.append(f"regard predict {run} {_quote(word)}")
        if summary["attends"]:
            commands.append(f"regard look {run} {_quote(word)}")
    if job.output.has_test_data:
        commands.append(f"regard evaluate {run}")
    if summary["attends"] and word is None:
        commands.append(f"regard look {run} --training")
    serve = [f"regard serve {run}"] if find_spec("fastapi") and find_spec("uvicorn") else []
    return [*commands, *serve][:MOST]


def program() -> str:
    """Return how to call regard here: its name if a shell would find this one, else its path."""
    script = Path(sys.executable).with_name("regard")
    found = shutil.which("regard")
    if (found and Path(found).resolve() == script.resolve()) or not script.is_file():
        return "regard"
    here = Path.cwd()
    return shlex.quote(str(script.relative_to(here) if script.is_relative_to(here) else script))


def as_typed(commands: Sequence[str]) -> str:
    """Format commands for display, one per line, as they work in the user's shell."""
    return "".join(f"\n  {program()} {command.removeprefix('regard ')}" for command in commands)


def closing_words(job: Job, folder: Path, summary: dict[str, Any]) -> str:
    """Return why training ended, the score, the folder of the run, and what to do next."""
    training, best = job.recipe.training, summary["best"]
    ended = why_ended(summary["stopped_by"], training)
    took = f"{summary['step']:,} steps in {duration(summary['seconds'])}"
    score = "no validation" if best is None else f"best validation {training.metric} {best['value']:.4g}"
    at = "" if best is None else f" at step {best['step']:,}{_few(summary)}"
    commands = as_typed(next_commands(job, folder, summary))
    test = summary.get("test")
    last = "" if not test else f"\n{test['words']}"
    return f"{took}, ended by {ended}; {score}{at}; the run is {folder}{_warnings(folder)}\nnext:{commands}{last}"


def _warnings(folder: Path) -> str:
    """Return the warnings of the data check: the score must be read with them."""
    findings = RunFiles(folder).check.get("findings", [])
    found = [f"{one['what']}; {one['advice']}" for one in findings if one["severity"] == "warning"]
    more = [f"and {len(found) - MOST} more warnings: {folder / CHECK}"] if len(found) > MOST else []
    return "".join(f"\nwarning: {line}" for line in [*found[:MOST], *more])


def advice(job: Job, verdict: str, stopped_by: str) -> str:
    """Suggest improvements for a model that is not better than a simple baseline; empty otherwise."""
    if verdict not in ("unclear", "worse"):
        return "; give more test data (data.test=FILE), or a larger data.test_share" if verdict == "few" else ""
    training, examples, ways = job.recipe.training, len(job.splits["train"]), list[str]()
    if training.time_limit is not None and stopped_by == "time_limit":
        ways.append(f"more time (--time-limit {max(1, round(MORE_TIME * training.time_limit / 60))}m)")
    if examples < MANY:
        ways.append(f"more data ({examples:,} training examples are few)")
    if job.recipe.start is None and set(job.input.kinds) & PRETRAINED:
        ways.append("a pretrained model as a start (regard import)")
    return f". What may help: {', '.join(ways or ['another model, or other settings (regard recipes)'])}"


def _few(summary: dict[str, Any]) -> str:
    """Return caveats of a validation score: too few examples, or data that chose the weights."""
    count = summary.get("validation_examples", FEW)
    few = f" ({count} validation examples: too few to judge)"
    return few if count < FEW else " (validation data chose these weights)"


def _quote(word: str) -> str:
    """Quote a word for the shell: in double quotes unless it has special characters."""
    plain = not set(word) & set('"$`\\!\n')
    return f'"{word}"' if plain and shlex.quote(word) != word else shlex.quote(word)


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
