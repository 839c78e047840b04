"""The files of a tokeniser, in any of the forms that model folders have, as one `Tokenizer`."""

import json
from pathlib import Path

from tokenizers import BertWordPieceTokenizer

from regard.data.tokens import Tokenizer
from regard.errors import CallError


def wordpiece(folder: Path) -> Tokenizer:
    """tokenizer.json, or the vocab.txt of BERT with what tokenizer_config.json says of case and accents."""
    if (folder / "tokenizer.json").is_file():
        return load(folder / "tokenizer.json")
    vocabulary = folder / "vocab.txt"
    if not vocabulary.is_file():
        raise CallError(f"{folder} has no tokenizer.json and no vocab.txt: text cannot be cut into its tokens")
    told = settings_of(folder)
    lowercase = bool(told.get("do_lower_case", True))
    inner = BertWordPieceTokenizer(
        str(vocabulary),
        lowercase=lowercase,
        strip_accents=told.get("strip_accents"),
        handle_chinese_chars=bool(told.get("tokenize_chinese_chars", True)),
    )
    return Tokenizer.from_json(inner.to_str())


def load(file: Path) -> Tokenizer:
    try:
        return Tokenizer.load(file)
    except Exception as error:  # the library has one kind of exception for everything
        raise CallError(f"{file} is not understood: {error}") from None


def settings_of(folder: Path) -> dict:
    file = folder / "tokenizer_config.json"
    return json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}
