"""Which methods have something to say of a model, by its parts and their roles alone: nothing is run to tell."""

from torch import nn

from regard.attention.role import Recurrence, Role
from regard.errors import CallError
from regard.look.explain import BY, INPUTS
from regard.look.methods import ABOUT_OUTPUT, METHODS
from regard.look.methods.patching import has_heads
from regard.look.methods.paths import has_paths

ATTENTION = ("raw", "rollout", "norm", "gradient")  # these show its weights, the others ask the whole model


def supported_methods(model: nn.Module) -> list[str]:
    """Rollout follows attention from layer to layer: through layers that look at themselves, and no convolution.
    AttnLRP has no rule for recurrent cells."""
    found = (getattr(module, "role", None) for module in model.modules())
    roles = [role for role in found if isinstance(role, Role) and role.kind != "gate"]
    kinds = {role.kind for role in roles}
    layered = "decoder" in kinds or ("encoder" in kinds and "cross" not in kinds)
    followed = layered and all(role.followed for role in roles)
    recurrent = any(isinstance(module, nn.RNNBase | nn.RNNCellBase) for module in model.modules())
    fails = {"rollout": not followed, "attnlrp": recurrent} | ({} if roles else dict.fromkeys(ATTENTION, True))
    return [name for name in METHODS if not fails.get(name, False)]


def supported_explanations(model: nn.Module, *, writes_text: bool) -> list[str]:
    """Ways to ask why (`look/explain.py`), each with its `by`, if it has any. The layers of a Transformer that writes
    text can be read one by one; what each input adds is asked by the methods above."""
    methods = supported_methods(model)
    roles = [role for module in model.modules() if isinstance(role := getattr(module, "role", None), Role)]
    layered = writes_text and any(role.kind == "decoder" for role in roles)
    recurrent = any(isinstance(getattr(module, "recurrence", None), Recurrence) for module in model.modules())
    there = {"heads": has_heads(model), "positions": bool(roles), "states": recurrent, "paths": has_paths(model)}
    return [
        *(("lens", "logits") if layered else ()),
        *(f"inputs {name}" for name in INPUTS if name in methods),
        *(f"patching {by}" for by in BY["patching"] if there[by]),
    ]


def require_contrast(method: str) -> None:
    """Says which methods can ask why something was said, and not another word."""
    if method not in ABOUT_OUTPUT:
        raise CallError(
            f"method={method!r} asks where a model looks, whatever it says: instead= (--instead) needs one of "
            f"{', '.join(ABOUT_OUTPUT)}"
        )
