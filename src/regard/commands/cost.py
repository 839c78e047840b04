"""`regard cost RECIPE`: estimate the cost of a recipe or a published model without building it."""

from pathlib import Path
from tempfile import TemporaryDirectory

from regard import config, jobs
from regard.cost.estimate import Cost
from regard.cost.hardware import find as find_hardware
from regard.cost.passes import model_cost
from regard.cost.published import PUBLISHED, published_cost
from regard.errors import CallError, nearest
from regard.train_request import read_recipe


def cost(
    recipe: str,
    overrides: tuple[str, ...] = (),
    hardware: str = "here",
    *,
    batch: int | None = None,
    length: int | None = None,
    dtype: str | None = None,
    utilization: float | None = None,
) -> Cost:
    """Estimate for a published name, a packaged recipe or a YAML file. The model is on the meta device: no memory."""
    if recipe not in PUBLISHED and recipe not in config.packaged() and not Path(recipe).exists():
        raise CallError(
            f"{recipe!r} is not a recipe, file or published model{nearest(recipe, [*PUBLISHED, *config.packaged()])}"
        )
    if recipe in PUBLISHED and overrides:
        raise CallError(f"{recipe} is a published model, which has no settings to override: {' '.join(overrides)}")
    with TemporaryDirectory(prefix="regard-cost-") as folder:
        settings = None if recipe in PUBLISHED else read_recipe(recipe, overrides, Path(folder))
    machine = find_hardware(hardware)
    if settings is None:
        return published_cost(
            recipe, hardware=machine, batch=batch, length=length, dtype=dtype, utilization=utilization
        )
    planned = jobs.make(settings).output.planned()
    if planned is None:
        raise CallError(
            f"{recipe}: cost supports translators, text classifiers, language models and published models; "
            f"`regard check {recipe}` estimates the model of the job {settings.job!r}"
        )
    length = length or planned.length
    return model_cost(
        planned.model,
        batch=batch or max(1, settings.training.max_tokens // (planned.texts * length)),
        length=length,
        name=recipe,
        hardware=machine,
        dtype=dtype,
        utilization=utilization,
        notes=(planned.note,),
    )
