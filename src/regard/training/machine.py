"""What a run is trained on, as it stands in `machine.json` and in its report."""

import os
import platform
from typing import Any

import torch

from regard import __version__


def machine(device: torch.device, processes: int = 1) -> dict[str, Any]:
    """Nothing that tells whose machine it is."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    found = {
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else device.type,
        "processor": platform.processor() or platform.machine(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "memory": f"{memory / 1e9:.3g} GB",
        "processes": processes,
        "system": platform.system(),
    }
    return found | {"python": platform.python_version(), "torch": torch.__version__, "regard": __version__}
