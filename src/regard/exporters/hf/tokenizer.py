"""A tokenizer as AutoTokenizer reads it: our tokenizer.json with the tokens that frame a text, and what they are called."""

import json
from pathlib import Path
from typing import Any

from regard.data.tokenizer import TOKENIZER, Tokenizer

LONGEST = 1_000_000  # tokens, where a model does not say


def write_tokenizer(
    folder: Path,
    tokenizer: Tokenizer,
    *,
    first: bool,
    last: bool,
    longest: int | None = None,
    types: bool = False,
) -> None:
    """
    first, last   whether a token begins a text, and ends it
    longest       most tokens that the model reads
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
        "split_special_tokens": True,  # "</s>" in a text is five characters, as in our own
        "model_input_names": inputs,
        **{role: specials.names[index] for role, index in roles.items() if index is not None},
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(about, ensure_ascii=False, indent=1), encoding="utf-8")
