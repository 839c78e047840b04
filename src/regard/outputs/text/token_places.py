"""Two vocabularies of the same tokens, in whatever order. No torch."""

from regard.data.tokenizer import Tokenizer
from regard.errors import CallError
from regard.special_tokens import SPECIAL_TOKENS


def token_places(name: str, theirs: Tokenizer, ours: Tokenizer) -> list[int]:
    """Which token of a language model is each of ours; it has to know all of them. `name`: of it, for errors."""
    if theirs.pieces(range(len(SPECIAL_TOKENS))) != SPECIAL_TOKENS:
        raise CallError(f"{name} has a vocabulary of another tool, with other tokens for begin and end")
    places = {piece: number for number, piece in enumerate(theirs.pieces(range(theirs.size)))}
    pieces = ours.pieces(range(ours.size))
    unknown = [piece for piece in pieces if piece not in places]
    if unknown:
        raise CallError(
            f"{name} does not know {len(unknown)} of the {len(pieces)} tokens of this model, "
            f"such as {unknown[0]!r}: both must have the same kind of tokens, learned from the same texts "
            "(data.tokenizer.kind=character in both will do)"
        )
    return [places[piece] for piece in pieces]
