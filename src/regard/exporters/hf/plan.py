"""Common parts of all folders for `transformers`: config.json, model.safetensors, and loading for the check."""

import json
from abc import abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from torch import Tensor

from regard.api import Run
from regard.data.tokenizer import TOKENIZER, Tokenizer
from regard.errors import RegardError
from regard.exporters.base import ExportPlan
from regard.files import atomic
from regard.pretrained.weights import WeightMap

WEIGHTS, ADAPTER = "model.safetensors", "adapter"


class FolderPlan(ExportPlan):
    library = "transformers"
    auto: str  # the class that loads it
    spare: ClassVar[tuple[str, ...]] = ()  # weights of the class that may be missing in the folder

    def __init__(self, run: Run) -> None:
        self.run = run
        self.instead: Mapping[str, Tensor] = {}  # weights that replace those of the model in the files

    def explain_loading(self, reader: str = "tokenizer", kind: str = "AutoTokenizer") -> None:
        """Set the loading code for the card."""
        self.how = (
            f"from transformers import {kind}, {self.auto}\n"
            f"{reader} = {kind}.from_pretrained(FOLDER)\n"
            f"model = {self.auto}.from_pretrained(FOLDER)"
        )

    @abstractmethod
    def config(self) -> dict[str, Any]:
        """Return the content of config.json."""

    @abstractmethod
    def tensors(self) -> Mapping[str, Tensor]:
        """Return the weights by their names in transformers."""

    @abstractmethod
    def maps(self) -> list[WeightMap]:
        """Return the linear maps of the layers: our names, and the full names in transformers."""

    @abstractmethod
    def write_more(self, folder: Path) -> None:
        """Write tokenizers, labels and generation settings."""

    def write(self, folder: Path) -> None:
        write_json(folder / "config.json", {**self.config(), "dtype": "float32"})
        atomic.save_tensors(folder / WEIGHTS, self.tensors(), {"format": "pt"})
        self.write_more(folder)

    def state(self) -> dict[str, Tensor]:
        """Return the weights of the run's model; shared weights appear under both names."""
        return {**self.run.model.state_dict(), **self.instead}

    def load(self, folder: Path) -> Any:
        """Load the folder with transformers; raise a `RegardError` if a weight is missing or unexpected."""
        import transformers

        with quiet():
            model, info = getattr(transformers, self.auto).from_pretrained(folder, output_loading_info=True)
        missing = [name for name in info["missing_keys"] if not name.endswith(self.spare)] if self.spare else [
            *info["missing_keys"]
        ]  # fmt: skip
        wrong = sorted([*missing, *info["unexpected_keys"], *map(str, info["mismatched_keys"])])
        if wrong:
            raise RegardError(f"{self.auto} does not load these weights: {', '.join(wrong[:8])}")
        if (folder / ADAPTER).is_dir():
            import peft

            model = peft.PeftModel.from_pretrained(model, str(folder / ADAPTER))
        return model.float().eval()

    def tokenizer(self, folder: Path, subfolder: str = "") -> Any:
        import transformers

        with quiet():
            return transformers.AutoTokenizer.from_pretrained(folder, **({"subfolder": subfolder} if subfolder else {}))


class quiet:  # noqa: N801 (used like a function)
    """Context manager that suppresses progress bars and warnings of transformers."""

    def __enter__(self) -> None:
        from transformers.utils import logging

        self._level = logging.get_verbosity()
        logging.set_verbosity_error()
        logging.disable_progress_bar()

    def __exit__(self, *_: Any) -> None:
        from transformers.utils import logging

        logging.set_verbosity(self._level)
        logging.enable_progress_bar()


def write_json(file: Path, tree: Mapping[str, Any]) -> None:
    file.write_text(json.dumps(tree, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")


# A tokenizer for AutoTokenizer: our tokenizer.json with the begin and end tokens, and their roles.

LONGEST = 1_000_000  # tokens, if a model has no limit


def write_tokenizer(
    folder: Path,
    tokenizer: Tokenizer,
    *,
    first: bool,
    last: bool,
    longest: int | None = None,
    types: bool = False,
) -> None:
    """Write the tokenizer files.

    first, last   whether a token begins a text, and ends it
    longest       maximum number of tokens that the model reads
    types         whether the model has a vector for each of two segments
    """
    specials = tokenizer.specials
    framed = tokenizer.framed_by(specials.start if first else None, specials.end if last else None)
    folder.mkdir(exist_ok=True)
    (folder / TOKENIZER).write_text(framed.to_json(), encoding="utf-8")
    roles = {
        "pad_token": specials.pad, "unk_token": specials.unk, "bos_token": specials.start, "eos_token": specials.end,
        "cls_token": specials.start, "sep_token": specials.end, "mask_token": specials.mask,
    }  # fmt: skip
    inputs = ["input_ids", "token_type_ids", "attention_mask"] if types else ["input_ids", "attention_mask"]
    about: dict[str, Any] = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": longest or LONGEST,
        "clean_up_tokenization_spaces": False,
        "split_special_tokens": True,  # "</s>" in a text is four characters, as in ours
        "model_input_names": inputs,
        **{role: specials.names[index] for role, index in roles.items() if index is not None},
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(about, ensure_ascii=False, indent=1), encoding="utf-8")
