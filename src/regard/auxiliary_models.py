"""Auxiliary models: a language model for shallow fusion, a matcher for reranking drawings."""

from functools import lru_cache
from pathlib import Path
from typing import Any

import torch
from pydantic import ValidationError
from torch import nn

from regard import config
from regard.catalog import load_object
from regard.errors import CallError, RegardError
from regard.jobs import MAKE_JOB, recipe_class
from regard.training.checkpoint import read_weights
from regard.training.initial_weights import SkipInit
from regard.training.parallel import within_memory


@lru_cache(maxsize=2)
def load_auxiliary_model(field: str, folder: str, name_of_job: str, device: torch.device) -> tuple[Any, nn.Module]:
    """Load the job and the model of another run; `field` is the setting that names its folder, for errors."""
    place, name = Path(folder).expanduser(), f"{field}={folder}"
    try:
        tree = config.load_yaml(place / "config.yaml")
        job = load_object(MAKE_JOB)(recipe_class(name_of_job).model_validate(tree))
        job.restore(place)
        with SkipInit():
            model = within_memory(job.build)
        read_weights(model, place / "model.safetensors")
    except (OSError, RegardError) as problem:
        raise CallError(f"{name} is not a run of the job {name_of_job} ({problem})") from None
    except (ValidationError, RuntimeError) as problem:
        raise CallError(f"{name} is not a run of the job {name_of_job}: {str(problem).splitlines()[0]}") from None
    return job.bound(model.to(device).eval()), model
