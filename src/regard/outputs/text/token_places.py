"""A mapping between two vocabularies of the same tokens in different order. Needs no torch."""

from regard.data.tokenizer import Tokenizer
from regard.errors import CallError
from regard.special_tokens import SPECIAL_TOKENS


def token_places(name: str, theirs: Tokenizer, ours: Tokenizer) -> list[int]:
    """Return the language model's id of each of our tokens; its vocabulary must contain all of them. `name` is for
    errors.
    """
    if theirs.pieces(range(len(SPECIAL_TOKENS))) != SPECIAL_TOKENS:
        raise CallError(f"{name} has a vocabulary of another tool, with other start and end tokens")
    places = {piece: number for number, piece in enumerate(theirs.pieces(range(theirs.size)))}
    pieces = ours.pieces(range(ours.size))
    unknown = [piece for piece in pieces if piece not in places]
    if unknown:
        raise CallError(
            f"{name} lacks {len(unknown)} of the {len(pieces)} tokens of this model, "
            f"such as {unknown[0]!r}: both must have the same kind of tokens, learned from the same texts "
            "(data.tokenizer.kind=character in both will do)"
        )
    return [places[piece] for piece in pieces]
