"""The encoder of a run, for jobs that start from a trained encoder."""

from dataclasses import dataclass
from pathlib import Path

from safetensors import SafetensorError, safe_open
from torch import Tensor

from regard import config
from regard.data.tokenizer import TOKENIZER, Tokenizer
from regard.errors import CallError, RegardError
from regard.files import atomic
from regard.settings.model import EncoderSettings

SETTINGS, WEIGHTS, PREFIX = "encoder.json", "model.safetensors", "encoder."


@dataclass(frozen=True)
class PretrainedEncoder:
    """Parts of a trained encoder; `build_encoder(settings, tokenizer.size)` returns a module for the weights."""

    settings: EncoderSettings
    tokenizer: Tokenizer
    weights: dict[str, Tensor]


def encoder(path: Path | str, *, dropout: float | None = None) -> PretrainedEncoder:
    """Return the encoder of a run that was imported or trained here.

    `dropout` replaces that of its training.
    """
    folder = Path(path)
    settings = kept_settings(folder)
    if dropout is not None:
        settings = settings.model_copy(update={"dropout": dropout})
    try:
        tokenizer = Tokenizer.load(folder / TOKENIZER)
        with safe_open(folder / WEIGHTS, "pt") as file:
            names = [name for name in file.keys() if name.startswith(PREFIX)]  # noqa: SIM118 (it is no dict)
            weights = {name.removeprefix(PREFIX): file.get_tensor(name) for name in names}
    except (OSError, SafetensorError) as error:
        raise RegardError(f"{folder} lacks a file of its encoder: {error}") from None
    return PretrainedEncoder(settings, tokenizer, weights)


def keep_settings(settings: EncoderSettings, folder: Path) -> None:
    """Save the encoder settings of a run whose recipe only names the source of the encoder (`kind: pretrained`)."""
    atomic.write_text(folder / SETTINGS, settings.model_dump_json(indent=1) + "\n")


def kept_settings(folder: Path) -> EncoderSettings:
    """Return the encoder settings of a run: those of `keep_settings`, or of its recipe."""
    if (folder / SETTINGS).is_file():
        return EncoderSettings.model_validate_json((folder / SETTINGS).read_text(encoding="utf-8"))
    if not (folder / "config.yaml").is_file():
        raise CallError(
            f"{folder} {'is not a run' if folder.exists() else 'is not there'}: "
            "`regard import SOURCE -o RUN` makes a run of a pretrained model"
        )
    recipe = config.build(config.load_yaml(folder / "config.yaml"), str(folder / "config.yaml"))
    model = recipe.model
    if not isinstance(model, EncoderSettings):  # may also hold settings of a head
        raise CallError(f"{folder} is a run of the job {recipe.job!r} without a separate Transformer encoder")
    return EncoderSettings.model_validate(model.model_dump(include=set(EncoderSettings.model_fields)))
