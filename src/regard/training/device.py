"""The device for training and prediction."""

import torch

from regard.errors import CallError

DEVICES = {"cpu", "cuda", "mps", "xpu"}  # torch has others that compute nothing, such as meta


def pick_device(name: str, local_rank: int = 0) -> torch.device:
    """Return the device by name; `auto` is a GPU if there is one. With several processes each takes its own GPU."""
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(name)
    except RuntimeError:
        device = None
    if device is None or device.type not in DEVICES:
        raise CallError(f"training.device={name!r}: not a device to train on; try auto, cpu, cuda or cuda:1")
    if device.type == "cuda":
        if not torch.cuda.is_available():
            raise CallError(f"training.device={name!r}: there is no CUDA GPU here; try auto or cpu")
        device = torch.device("cuda", local_rank if device.index is None else device.index)
        torch.cuda.set_device(device)
    return device
