"""Methods and explanations that a model supports, found from its modules without running it."""

from torch import nn

from regard.attention.head_mask import ManyHeads
from regard.attention.role import Recurrence, Role
from regard.errors import CallError
from regard.look.explain import BY, INPUTS
from regard.look.methods import ABOUT_OUTPUT, METHODS
from regard.look.records import ORDER

ATTENTION = ("raw", "rollout", "norm", "gradient")  # these show attention weights, the others explain the whole model


def supported_methods(model: nn.Module) -> list[str]:
    """Return the methods that a model supports.

    Rollout multiplies attention over layers, so it needs self-attention layers and no convolutions. AttnLRP has no rule
    for recurrent cells."""
    found = (getattr(module, "role", None) for module in model.modules())
    roles = [role for role in found if isinstance(role, Role) and role.kind != "gate"]
    kinds = {role.kind for role in roles}
    layered = "decoder" in kinds or ("encoder" in kinds and "cross" not in kinds)
    followed = layered and all(role.followed for role in roles)
    recurrent = any(isinstance(module, nn.RNNBase | nn.RNNCellBase) for module in model.modules())
    fails = {"rollout": not followed, "attnlrp": recurrent} | ({} if roles else dict.fromkeys(ATTENTION, True))
    return [name for name in METHODS if not fails.get(name, False)]


def supported_explanations(model: nn.Module, reader: nn.Module, *, writes_text: bool) -> list[str]:
    """Return the supported explanations (`look/explain.py`), each with its `by` options.

    `lens`, `logits` and `scores` need a Transformer decoder; `inputs` uses the methods above. Patching copies states
    from one input to another in `reader`, the part of the model that runs again for each input."""
    methods = supported_methods(model)
    roles = {name: role for name, one in reader.named_modules() if isinstance(role := getattr(one, "role", None), Role)}
    layered = writes_text and any(role.kind == "decoder" for role in roles.values())
    heads = [name for name, role in roles.items() if role.kind in ORDER and _many_heads(reader, name)]
    blocks = [name.rpartition(".")[0] for name in heads if roles[name].kind != "cross" and roles[name].followed]
    stacks = [block.rpartition(".")[0] for block in blocks if getattr(reader.get_submodule(block), "norm_first", False)]
    carried = {
        "heads": bool(heads),
        "positions": any(role.kind == "decoder" for role in roles.values())
        or any(hasattr(one, "memory_width") for one in reader.modules()),
        "states": any(isinstance(getattr(one, "recurrence", None), Recurrence) for one in reader.modules()),
        "paths": len(stacks) > len(set(stacks)),
    }
    return [
        *(("lens", "logits") if layered else ()),
        *(f"scores {by}" for by in BY["scores"] if layered),
        *(f"inputs {name}" for name in INPUTS if name in methods),
        *(f"patching {by}" for by in BY["patching"] if carried[by]),
    ]


def _many_heads(model: nn.Module, name: str) -> bool:
    return isinstance(model.get_submodule(name), ManyHeads)


def require_contrast(method: str) -> None:
    """Raise CallError unless the method supports a contrast word."""
    if method not in ABOUT_OUTPUT:
        raise CallError(
            f"method={method!r} asks where a model looks, whatever it says: instead= (--instead) needs one of "
            f"{', '.join(ABOUT_OUTPUT)}"
        )
