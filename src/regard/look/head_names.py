"""Names of heads: `cross.2.3` is head 3 of layer 2 of the attention over the source.

A record of the same model maps them to modules: it lists the kind, layer and module name of each attention.
"""

from collections.abc import Sequence

from torch import nn

from regard.errors import CallError
from regard.look import AttentionRecord
from regard.look.records import KINDS


def heads_called(names: Sequence[str], model: nn.Module, record: AttentionRecord) -> dict[nn.Module, list[int]]:
    """Return the named heads by attention module, for `regard.attention.HeadMask`."""
    modules = dict(model.named_modules())
    there = {(one.kind, one.layer): one for one in record.attentions if one.name in modules}
    found: dict[nn.Module, list[int]] = {}
    for name in names:
        kind, layer, head = _parts(name)
        one = next((one for place, one in there.items() if place == (kind, layer)), None)
        if one is None:
            known = ", ".join(f"{kind}.{layer}" for kind, layer in there) or "none"
            raise CallError(f"without={name!r}: there is no such layer; the attentions of this model are: {known}")
        if head >= len(one.weights):
            raise CallError(f"without={name!r}: the heads of {kind}.{layer} are 0 to {len(one.weights) - 1}")
        found.setdefault(modules[one.name], []).append(head)
    return found


def _parts(name: str) -> tuple[str, int, int]:
    parts = name.split(".")
    if len(parts) != 3 or parts[0] not in KINDS or not all(part.isdecimal() and len(part) < 6 for part in parts[1:]):
        raise CallError(
            f"without={name[:50]!r} is no head: write KIND.LAYER.HEAD, such as cross.0.3; KIND is one of "
            f"{', '.join(KINDS)}"
        )
    return parts[0], int(parts[1]), int(parts[2])
