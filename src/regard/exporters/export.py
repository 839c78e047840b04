"""Export a run: make a plan, write into a temporary folder, check the result, rename it to `out`.

run = regard.load("runs/mine")
regard.export(run, to="hf", out="exports/mine")

An error before the rename (a full disk, a failed check) leaves nothing behind, and an earlier export at `out`
unchanged.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import yaml

from regard import api
from regard.api import Run
from regard.errors import CallError, RegardError
from regard.exporters.base import ExportPlan, ExportRequest, RefusalError, check_inputs, expressed_by, format_of
from regard.exporters.proof import OWN, TOLERANCE, Proof, Quality, measure, prove
from regard.files import atomic
from regard.version import __version__

# README.md of an export: the facts of the model, with the metadata that the Hugging Face Hub reads.

CARD = "README.md"


@dataclass(frozen=True)
class Checked:
    """Results of the check; empty if there was none."""

    proof: Proof | None = None
    quality: Quality | None = None
    notes: Sequence[str] = ()

    def as_dict(self) -> dict[str, Any]:
        found = {"check": self.proof and self.proof.as_dict()}
        return found if self.quality is None else {**found, "quality": self.quality.as_dict()}


def card(run: Run, name: str, to: str, dtype: str, plan: ExportPlan, found: Checked, notes: Sequence[str]) -> str:
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
        *_describe_check(found.proof, dtype),
        *([] if found.quality is None else ["", *found.quality.table(dtype)]),
        *(["", *(f"- {note}" for note in notes)] if notes else []),
    ]
    return "\n".join(lines) + "\n"


def _describe_check(proof: Proof | None, dtype: str) -> list[str]:
    if proof is None:
        return [
            "**NOT CHECKED.** This export was written with `--no-check`: it was not compared with the "
            "run. Export again without it."
        ]
    held = (
        f" An export with a difference above {TOLERANCE:g} is not written."
        if dtype == "float32"
        else " The run itself is float32."
    )
    return [f"Loaded by its own runtime and {proof.sentence()}.{held}"]


RECORD = "export.json"  # origin and check of the export; a folder that holds this file may be overwritten


@dataclass(frozen=True)
class ExportReport:
    run: str
    to: str
    out: str
    dtype: str
    bytes: int
    proof: Proof | None
    quality: Quality | None  # for dtypes other than float32
    notes: list[str]
    how: str  # code that uses it

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    def sentence(self) -> str:
        checked = "NOT CHECKED (--no-check)" if self.proof is None else self.proof.sentence()
        lines = [f"{self.out}: {self.bytes / 1e6:.1f} MB for {self.to}", checked]
        lines += [] if self.quality is None else [self.quality.sentence(self.dtype)]
        used = (f"    {line}" for line in self.how.splitlines())
        return "\n".join([*lines, *(f"note: {note}" for note in self.notes), *used])


def export(
    run: Run | str | Path,
    *,
    to: str,
    out: str | Path,
    dtype: str | None = None,
    attention: bool | None = None,
    check: bool = True,
    inputs: str | Path | None = None,
    report: Callable[[str], None] = lambda line: None,
) -> ExportReport:
    """Write a run in a format that other programs read.

    dtype      of the weights; by default the first of the format: float32, or float16 (html)
    attention  also export attention weights; by default, if the format supports it
    inputs     a file of inputs for the check, one a line; by default, some of the validation data
    tell       called with the expected size before anything is written, if the format knows it
    """
    run = run if isinstance(run, Run) else api.load(run)
    form, out = format_of(to), Path(out)
    dtype = dtype or form.dtypes[0]
    if not check and inputs is not None:
        raise CallError("--check-inputs and --no-check exclude each other: remove one of them")
    _require_finished(run)
    _require_free(out)
    form.require_dtype(dtype)
    if attention and not form.gives_attention:
        raise CallError(f"export to {to} has no attention weights: remove --attention, or use --to onnx")
    wish = ExportRequest(run, dtype, form.gives_attention if attention is None else attention)
    _make_plan(wish, to)  # before any input is read
    form.require(check=check)
    given = check_inputs(run, None if inputs is None else Path(inputs)) if check or form.traces else []
    plan = form.plan(replace(wish, inputs=given))
    made: list[Checked] = []
    if plan.announced:
        report(plan.announced)

    def fill(folder: Path) -> None:
        plan.write(folder)
        found = _run_check(plan, wish, folder, given) if check else Checked()
        made.append(found)
        about = {"run": run.folder.name, "to": to, "dtype": dtype, **found.as_dict()}
        (folder / RECORD).write_text(json.dumps(about, indent=1) + "\n", encoding="utf-8")
        (folder / CARD).write_text(card(run, out.name, to, dtype, plan, found, _notes(plan, found, run)), "utf-8")

    atomic.write_folder(out, fill)
    size = sum(file.stat().st_size for file in out.rglob("*") if file.is_file())
    found, how = made[0], plan.how.replace("FOLDER", str(out))
    return ExportReport(
        str(run.folder), to, str(out), dtype, size, found.proof, found.quality, _notes(plan, found, run), how
    )


def _run_check(plan: ExportPlan, request: ExportRequest, folder: Path, inputs: Sequence[Any]) -> Checked:
    proof = prove(plan.compare(folder, inputs), exact=request.dtype == "float32")
    if request.dtype == "float32":
        return Checked(proof)
    found = measure(request.run, plan, folder)
    if isinstance(found, Quality):
        return Checked(proof, found)
    return Checked(proof, notes=(f"test scores with {request.dtype} were not measured: {found}",))


def _notes(plan: ExportPlan, found: Checked, run: Run) -> list[str]:
    return [*plan.notes, *found.notes, *([] if plan.searches else _unsupported_settings(run))]


def _make_plan(request: ExportRequest, to: str) -> ExportPlan:
    try:
        return format_of(to).plan(request)
    except RefusalError as refusal:
        others = expressed_by(request)
        can = f"; --to {' or --to '.join(others)} can" if others else "; no other format can"
        raise CallError(f"{request.run.folder} cannot be exported to {to}: {refusal}{can}") from None


def _require_finished(run: Run) -> None:
    """Raise a `CallError` if the training of a run has not finished. Imported runs never trained."""
    if (run.folder / "state").exists() and not (run.folder / api.SUMMARY).is_file():
        raise CallError(f"{run.folder}: training has not finished; run the same `regard train` again to resume")


def _require_free(out: Path) -> None:
    if out.exists() and not out.is_dir():
        raise CallError(f"{out} is a file: give a folder as -o")
    if out.is_dir() and any(out.iterdir()) and not (out / RECORD).is_file():
        raise CallError(f"{out} holds files that are not of an export: give another -o, or remove it")
    above = next(parent for parent in out.absolute().parents if parent.exists())
    if not above.is_dir():
        raise RegardError(f"{out} cannot be written: {above} is a file")


def _unsupported_settings(run: Run) -> list[str]:
    """Return the decoding settings that only regard supports."""
    how = getattr(run.recipe, "decoding", None)
    return [
        f"decoding.{name}={getattr(how, name)} is supported by regard only: the export searches without it"
        for name in OWN
        if getattr(how, name, None)
    ]
