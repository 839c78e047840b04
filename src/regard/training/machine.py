"""Description of the machine of a run, for `machine.json` and the report."""

import os
import platform
from typing import Any

import torch

from regard.version import __version__


def machine(device: torch.device, processes: int = 1) -> dict[str, Any]:
    """Return device, processor and versions; no data that identifies the machine or its owner."""
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
