"""Build each kind of tokenizer from the components of the `tokenizers` library."""

import json
from typing import Any, Literal

from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

from regard.data.settings import TokenizerKind as Kind
from regard.special_tokens import SPECIAL_TOKENS, UNK

GLUE = "￭"  # on a punctuation mark: no space on this side
INNER = "##"  # on a piece of WordPiece: it continues the word (1810.04805; regard reads it, but does not write it)
SPACE = "▁"  # in BPE and unigram pieces: a space comes before
_MARKS = r"\p{P}\p{S}"
# An apostrophe between letters and a point between digits belong to the word: don't, l'eau, 3.14, 10:30.
_INNER = r"(?!(?<=[\p{L}\p{M}])['’]\p{L})(?!(?<=\p{N})[.,:]\p{N})"
_AFTER_INNER = r"(?!(?<=[\p{L}\p{M}]['’])\p{L})(?!(?<=\p{N}[.,:])\p{N})"


def _byte_letters() -> dict[str, bytes]:
    """Return the printable letter that the library uses for each byte: itself if printable, else U+0100 and up."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in printable]
    letters = {chr(byte): bytes([byte]) for byte in printable}
    return letters | {chr(0x100 + place): bytes([byte]) for place, byte in enumerate(others)}


BYTES = _byte_letters()


def untrained(kind: Kind | Literal["bytes"], lowercase: bool) -> Tokenizer:
    inner = Tokenizer(_model(kind))
    inner.normalizer = _normalizer(kind, lowercase)
    inner.pre_tokenizer = _pre_tokenizer(kind)
    inner.decoder = _decoder(kind)
    if kind == "byte":
        inner.add_special_tokens(SPECIAL_TOKENS)
    return inner


def _model(kind: Kind | Literal["bytes"]) -> models.Model:
    if kind == "bytes":
        return models.BPE()
    if kind == "bpe":
        return models.BPE(unk_token=SPECIAL_TOKENS[UNK], fuse_unk=True)
    if kind == "unigram":
        return models.Unigram()
    if kind == "byte":
        letters = sorted(BYTES, key=BYTES.__getitem__)  # id = byte + 4
        return models.BPE({piece: index for index, piece in enumerate(SPECIAL_TOKENS + letters)}, [])
    return models.WordLevel(unk_token=SPECIAL_TOKENS[UNK])


def trainer(kind: Kind | Literal["bytes"], size: int, min_frequency: int) -> trainers.Trainer:
    common: dict[str, Any] = {"vocab_size": size, "special_tokens": SPECIAL_TOKENS, "show_progress": False}
    if kind == "unigram":
        return trainers.UnigramTrainer(unk_token=SPECIAL_TOKENS[UNK], **common)
    if kind in ("bpe", "bytes"):  # all 256 bytes are in the vocabulary, so no text is unknown
        alphabet = list(BYTES) if kind == "bytes" else []
        return trainers.BpeTrainer(min_frequency=min_frequency, initial_alphabet=alphabet, **common)
    return trainers.WordLevelTrainer(min_frequency=min_frequency, **common)


def _normalizer(kind: Kind | Literal["bytes"], lowercase: bool) -> normalizers.Normalizer:
    steps: list[normalizers.Normalizer] = [normalizers.NFC()]
    if lowercase:
        steps.append(normalizers.Lowercase())
    if kind not in ("character", "byte", "bytes"):
        steps += [normalizers.Replace(Regex(r"\s+"), " "), normalizers.Strip()]
    if kind == "space":
        # In other kinds "<" is separate, and no piece can spell a special token. Here it could, and would take its id.
        steps.append(normalizers.Replace(Regex(r"<(?=(pad|unk|s|/s)>)"), "‹"))
    if kind == "word":
        marks = f"[{_MARKS}&&[^{GLUE}]]"
        steps += [
            normalizers.Replace(GLUE, "■"),
            normalizers.Replace(Regex(rf"(?<=\S)(?={marks}){_INNER}"), f" {GLUE}"),
            normalizers.Replace(Regex(rf"(?<={marks})(?=[^\s{_MARKS}]){_AFTER_INNER}"), f"{GLUE} "),
        ]
    return normalizers.Sequence(steps)


def _pre_tokenizer(kind: Kind | Literal["bytes"]) -> pre_tokenizers.PreTokenizer:
    if kind in ("byte", "bytes"):  # `bytes` first cuts text into words, as GPT-2 does; no piece crosses them
        return pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=kind == "bytes")
    if kind == "character":
        return pre_tokenizers.Split(Regex(r"[\s\S]"), "isolated")
    if kind in ("word", "space"):
        return pre_tokenizers.WhitespaceSplit()
    return pre_tokenizers.Sequence(
        [
            pre_tokenizers.Metaspace(replacement=SPACE, prepend_scheme="always"),
            pre_tokenizers.Split(Regex(rf"{SPACE}?[{_MARKS}&&[^{SPACE}]]+"), "isolated"),
        ]
    )


def _decoder(kind: Kind | Literal["bytes"]) -> decoders.Decoder:
    """Return the decoder for other readers of the file; `decode` does not use it, as it also needs positions."""
    if kind in ("byte", "bytes"):
        return decoders.ByteLevel()
    if kind == "character":
        return decoders.Fuse()
    if kind in ("bpe", "unigram"):
        return decoders.Metaspace(replacement=SPACE, prepend_scheme="always")
    glue = decoders.WordPiece(prefix=GLUE, cleanup=False)
    return decoders.Sequence([glue, decoders.Fuse(), decoders.Replace(f"{GLUE} ", "")]) if kind == "word" else glue


def kind_of(inner: Tokenizer) -> Kind | Literal["wordpiece", "bytes"]:
    """Return the kind, or one of two more: WordPiece, which only other tools write, and `bytes`, BPE over bytes as in
    GPT-2."""
    model = type(inner.model).__name__
    if model == "WordPiece":
        return "wordpiece"
    if model == "Unigram":
        return "unigram"
    if model == "BPE" and isinstance(inner.decoder, decoders.ByteLevel):
        return "byte" if inner.get_vocab_size() == len(SPECIAL_TOKENS) + len(BYTES) else "bytes"
    if model == "BPE":
        return "bpe"
    if isinstance(inner.pre_tokenizer, pre_tokenizers.Split):
        return "character"
    return "word" if isinstance(inner.decoder, decoders.Sequence) else "space"


def canonical(inner: Tokenizer) -> Tokenizer:
    """Return the same unigram vocabulary in an order that does not depend on the trainer's hash tables.

    Characters without a learned score get the lowest one plus a ten-thousandth more each, in the order of a hash table;
    equal scores have that order, too. Therefore the former get one score, and entries are sorted.
    """
    spec = json.loads(inner.to_str())
    vocabulary = spec["model"]["vocab"]
    learned = vocabulary[len(SPECIAL_TOKENS) :]
    lowest = min((score for _, score in learned), default=0.0)
    spread = lowest + 1e-4 * sum(len(piece) == 1 for piece, _ in learned)
    scores = {piece: round(lowest if len(piece) == 1 and score < spread else score, 6) for piece, score in learned}
    ordered = sorted(scores.items(), key=lambda entry: (-entry[1], entry[0]))
    spec["model"]["vocab"] = vocabulary[: len(SPECIAL_TOKENS)] + [list(entry) for entry in ordered]
    return Tokenizer.from_str(json.dumps(spec))
