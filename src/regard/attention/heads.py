"""Shapes of heads: split vectors, group heads, broadcast masks, and check inputs."""

from jaxtyping import Bool, Float, Shaped
from torch import Tensor


def split_heads(x: Float[Tensor, "B T E"], heads: int) -> Float[Tensor, "B H T d"]:
    """Split vectors of width E into `heads` vectors of width d."""
    return x.unflatten(-1, (heads, -1)).transpose(1, 2)


def group_heads(x: Shaped[Tensor, "*B H Q N"], kv_heads: int) -> Shaped[Tensor, "*B Hkv G Q N"]:
    """Group the heads that share a key; a head dimension of 1 stays 1."""
    heads = x.shape[-3]
    return x.unflatten(-3, (kv_heads, -1) if heads > 1 else (1, 1))


def mask_for_heads(mask: Tensor, B: int, K: int) -> Bool[Tensor, "#B #H #Q K"]:
    """Broadcast a mask of shape `B K` (which keys are real), `B Q K` or `B H Q K` to the last of these."""
    if mask.dim() == 2:
        if mask.shape != (B, K):
            raise ValueError(
                f"mask has shape {tuple(mask.shape)}; with two dimensions it marks the real keys and must be "
                f"batch × keys, here {(B, K)}. Pass a mask of queries × keys as mask[None]"
            )
        return mask[:, None, None]
    if mask.dim() == 3:
        return mask[:, None]
    if mask.dim() == 4:
        return mask
    raise ValueError(f"mask has {mask.dim()} dimensions; it must be B K, B Q K or B H Q K")


def require_vectors(name: str, x: Tensor, width: int) -> None:
    """Raise a ValueError unless x is batch × length × width in floating point."""
    if x.dim() != 3 or x.shape[-1] != width:
        raise ValueError(f"{name} has shape {tuple(x.shape)}, but must be batch × length × {width}")
    if not x.is_floating_point():
        raise ValueError(f"{name} is {str(x.dtype).removeprefix('torch.')}, but attention needs floating point")
