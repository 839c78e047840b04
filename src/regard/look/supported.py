"""Which methods have something to say of a model, by the roles of its attention alone: nothing is run to tell."""

from torch import nn

from regard.attention.role import Role
from regard.errors import CallError
from regard.look.methods import ABOUT_OUTPUT, METHODS

WITHOUT_ATTENTION = ("input-gradient", "leave-one-out")


def supported_methods(model: nn.Module) -> list[str]:
    """Rollout follows attention from layer to layer: through layers that look at themselves, and no convolution."""
    found = (getattr(module, "role", None) for module in model.modules())
    roles = [role for role in found if isinstance(role, Role) and role.kind != "gate"]
    if not roles:
        return list(WITHOUT_ATTENTION)
    kinds = {role.kind for role in roles}
    layered = "decoder" in kinds or ("encoder" in kinds and "cross" not in kinds)
    followed = layered and all(role.followed for role in roles)
    return [name for name in METHODS if name != "rollout" or followed]


def require_contrast(method: str) -> None:
    """Says which methods can ask why something was said, and not another word."""
    if method not in ABOUT_OUTPUT:
        raise CallError(
            f"method={method!r} asks where a model looks, whatever it says: instead= (--instead) needs one of "
            f"{', '.join(ABOUT_OUTPUT)}"
        )
