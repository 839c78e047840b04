"""Sentence pairs for entailment: does the second sentence follow from the first? Two people are compared.

    Anna is older than Ben      Ben is younger than Anna      yes
                                Ben is older than Anna        no
                                Ben is shorter than Anna      maybe: not mentioned
                                Ben is younger than Carla     maybe

Both sentences are needed: neither alone makes an answer more probable. A model that reads only one of the two is right
in a third of all cases. Gururangan et al. 2018 (arXiv:1803.02324) found this flaw in human-written corpora of this
kind.
"""

from random import Random

from regard.corpora.pair import Pair

NAMES = (
    "Adam", "Anna", "Ben", "Carla", "Clara", "David", "Elena", "Emil", "Eva", "Felix", "Frida", "Greta", "Hugo", "Ida",
    "Ines", "Jakob", "Jonas", "Karl", "Leo", "Lisa", "Maria", "Nora", "Oskar", "Paula", "Peter", "Rosa", "Simon",
    "Tara", "Vera", "Victor",
)  # fmt: skip
TURNED = {
    one: other
    for pair in (("older", "younger"), ("taller", "shorter"), ("faster", "slower"))
    for one, other in (pair, pair[::-1])
}
ANSWERS = ("yes", "no", "maybe")
SIZES = {"train": 9_000, "valid": 600, "test": 1_200}


def follows(split: str) -> list[Pair]:
    """Return the pairs of a split. The two people of the first sentence determine it: pairs of people in testing are
    not in training."""
    chance = Random(f"follows {split}")
    found: dict[str, Pair] = {}
    while len(found) < SIZES[split]:
        one, other, third = chance.sample(NAMES, 3)
        if _split_of(one, other) == split:
            how, answer = chance.choice(list(TURNED)), ANSWERS[len(found) % len(ANSWERS)]
            both = f"{one} is {how} than {other}\t{_second(one, how, other, third, answer, chance)}"
            found.setdefault(both, Pair(both, answer))
    return list(found.values())


def _split_of(one: str, other: str) -> str:
    number = Random(" ".join(sorted((one, other)))).randrange(100)
    return "valid" if number < 10 else "test" if number < 30 else "train"


def _second(one: str, how: str, other: str, third: str, answer: str, chance: Random) -> str:
    """Return the sentence from the side of the other person: `other` is ... than `one`."""
    if answer == "yes":
        how = TURNED[how]
    if answer == "maybe":
        if chance.random() < 0.5:
            one, other = chance.choice(((one, third), (third, other)))
            how = chance.choice((how, TURNED[how]))
        else:
            how = chance.choice([said for said in TURNED if said not in (how, TURNED[how])])
    return f"{other} is {how} than {one}"
