"""What an output cannot do is said in a sentence, whoever asks: a run, or an export of one. No torch."""

from typing import Any, Protocol, runtime_checkable

from regard.errors import CallError
from regard.metrics.alignment import Gold


@runtime_checkable
class Abilities(Protocol):
    """What an output says of itself; see `outputs/base.py`."""

    @property
    def takes_prefix(self) -> bool: ...
    @property
    def gives_attention(self) -> bool: ...
    @property
    def takes_gold(self) -> bool: ...


def refuse(job: str, output: Abilities, *, prefix: str = "", attention: bool = False, gold: Gold | None = None) -> None:
    what = f"the job {job!r}"
    if prefix and not output.takes_prefix:
        raise CallError(f"prefix={prefix!r}: {what} cannot be made to begin with a prefix; leave it out")
    if attention and not output.gives_attention:
        raise CallError(f"{what} gives no alignment with its input here; `look` shows where it looked")
    if gold is not None and not output.takes_gold:
        raise CallError(f"gold links join words of a source and its translation; {what} has none: leave gold out")


def refuse_both(prefix: str, output: str | None) -> None:
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
