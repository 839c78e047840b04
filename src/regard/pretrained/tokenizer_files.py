"""The files of a tokenizer, in any of the forms that model folders have, as one `Tokenizer`."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from tokenizers import BertWordPieceTokenizer, Regex, decoders, models, pre_tokenizers
from tokenizers import Tokenizer as Inner

from regard.data.special_ids import OURS
from regard.data.tokenizer import Tokenizer
from regard.errors import CallError


def wordpiece(folder: Path) -> Tokenizer:
    """Read tokenizer.json, or BERT's vocab.txt with the case and accent settings of tokenizer_config.json."""
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


def byte_pairs(folder: Path) -> Tokenizer:
    """tokenizer.json, or the vocab.json and merges.txt of GPT-2."""
    if (folder / "tokenizer.json").is_file():
        tokenizer = load(folder / "tokenizer.json")
        if tokenizer.kind != "bytes" and tokenizer.specials != OURS:
            raise CallError(f"{folder / 'tokenizer.json'}: only byte-level BPE is understood here, as GPT-2 has it")
        return tokenizer
    vocabulary, merges = folder / "vocab.json", folder / "merges.txt"
    if not (vocabulary.is_file() and merges.is_file()):
        raise CallError(f"{folder} has no tokenizer.json, and no vocab.json with merges.txt")
    pairs = [
        line for line in merges.read_text(encoding="utf-8").split("\n") if line and not line.startswith("#version")
    ]
    entries = json.loads(vocabulary.read_text(encoding="utf-8"))
    return byte_level(
        entries, pairs, "gpt-2", [name for name in entries if name.startswith("<|") and name.endswith("|>")]
    )


#: How text is cut before bytes are merged, by the names that GGUF files have for it. Where there is no pattern, it is
#: GPT-2's own; digits=True takes every digit for itself first.
LLAMA3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
    r"|\s+(?!\S)|\s+"
)
CUTS: dict[str, tuple[str | None, bool]] = {
    "gpt-2": (None, False),
    "default": (None, False),
    "smollm": (None, True),
    "llama-bpe": (LLAMA3, False),
}


def byte_level(entries: Mapping[str, int], merges: Sequence[str], cut: str, specials: Sequence[str]) -> Tokenizer:
    """BPE over bytes (Radford et al. 2019, section 2.2)."""
    if cut not in CUTS:
        raise CallError(f"the tokenizer cuts text by {cut!r}, which is not understood; what is: {', '.join(CUTS)}")
    pattern, digits = CUTS[cut]
    steps: list[pre_tokenizers.PreTokenizer] = [pre_tokenizers.Digits(individual_digits=True)] if digits else []
    if pattern is not None:
        steps.append(pre_tokenizers.Split(Regex(pattern), "isolated"))
    steps.append(pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=pattern is None))
    pairs = [(first, second) for first, _, second in (pair.partition(" ") for pair in merges)]
    inner = Inner(models.BPE(dict(entries), pairs))
    inner.pre_tokenizer = pre_tokenizers.Sequence(steps)
    inner.decoder = decoders.ByteLevel()
    inner.add_special_tokens(list(specials))
    return Tokenizer(inner)
