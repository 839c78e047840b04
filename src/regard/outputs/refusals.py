"""Errors for unsupported arguments, shared by runs and exported runs. Needs no torch."""

from typing import Any

from regard.errors import CallError
from regard.metrics.alignment import Gold


def refuse(job: str, output: Any, *, prefix: str = "", attention: bool = False, gold: Gold | None = None) -> None:
    """Raise if an argument is not supported. `output`: an `Output`, or one of an export, with flags for what it
    supports.
    """
    what = f"the job {job!r}"
    if prefix and not output.takes_prefix:
        raise CallError(f"prefix={prefix!r}: {what} does not support a prefix; remove it")
    if attention and not output.gives_attention:
        raise CallError(f"{what} does not support attention=True; use `look`")
    if gold is not None and not output.takes_gold:
        raise CallError(f"gold links join words of a source and its translation; {what} has no gold links; remove gold")


def refuse_both(prefix: str, output: Any) -> None:
    if prefix and output is not None:
        raise CallError("give the whole output or a prefix of it, not both")


def require_pairs(inputs: int, outputs: int) -> None:
    if inputs != outputs:
        raise CallError(f"{inputs} inputs and {outputs} outputs: each input needs its output")


def drawn(job: str, known: dict[str, Any], sample: bool | None) -> dict[str, Any]:
    """Return the decoding settings for `sample`; `known` are those of the job."""
    if sample and "temperature" not in known:
        raise CallError(f"sample=True: the job {job!r} does not support sampling; remove sample")
    return {"sample": sample} if sample is not None and "sample" in known else {}
