"""What an output cannot do is said in a sentence, whoever asks: a run, or an export of one. No torch."""

from typing import Any

from regard.errors import CallError
from regard.metrics.alignment import Gold


def refuse(job: str, output: Any, *, prefix: str = "", attention: bool = False, gold: Gold | None = None) -> None:
    """`output`: an `Output`, or one of an export, which say of themselves what they take and give."""
    what = f"the job {job!r}"
    if prefix and not output.takes_prefix:
        raise CallError(f"prefix={prefix!r}: {what} cannot be made to begin with a prefix; leave it out")
    if attention and not output.gives_attention:
        raise CallError(f"{what} gives no alignment with its input here; `look` shows where it looked")
    if gold is not None and not output.takes_gold:
        raise CallError(f"gold links join words of a source and its translation; {what} has none: leave gold out")


def refuse_both(prefix: str, output: Any) -> None:
    if prefix and output is not None:
        raise CallError("give the whole output or a prefix of it, not both")


def require_pairs(inputs: int, outputs: int) -> None:
    if inputs != outputs:
        raise CallError(f"{inputs} inputs and {outputs} outputs: each input needs its output")


def drawn(job: str, known: dict[str, Any], sample: bool | None) -> dict[str, Any]:
    """The settings of decoding that `sample` stands for; `known`: those that the job has."""
    if sample and "temperature" not in known:
        raise CallError(f"sample=True: the job {job!r} has nothing to draw; leave sample out")
    return {"sample": sample} if sample is not None and "sample" in known else {}
