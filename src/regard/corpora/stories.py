"""Small stories and questions about them, made by a grammar: the answer is always a span of the story.

    Ada put the red key in the drawer. At noon Ben went to the mill. … Ada moved the red key to the basket.
    Where is the red key now?                 → basket      (the last of two places)
    Who went to the mill at noon?             → Ben         (others went elsewhere, or at other times)

A story is a list of events. Each has a kind, which says in which words it is told and what may be asked about it. The
same people do several things, two things may differ in color only, and things move, so a reader has to bring two or
three words of the question together. A question is asked only if one event answers it; questions with *now* are
answered by the last event that concerns the person or thing.

A story belongs to a split by a hash of its text, so the splits share no story: about 88% train, 4% validation, 8% test.
"""

import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from random import Random
from typing import NamedTuple

from regard.corpora.loading import SPLITS
from regard.errors import CallError, nearest

STORIES = 8_000
QUESTIONS = 4  # of a story, at most


def _words(text: str) -> list[str]:
    return text.split()


_PEOPLE = _words(
    "Ada Ben Carla Dan Emma Farid Grace Hugo Iris Jonas Kim Lena Marco Nora Otto Paula Quentin Rosa Sam Tara Umar Vera "
    "Walter Yara Zoe"
)
_PLACES = _words(
    "kitchen garden mill market station library harbour bakery school church museum castle forest bridge theatre farm"
)
_HOLDERS = _words("drawer basket box cupboard suitcase bag bucket chest wardrobe barrel")
_THINGS = _words("key lamp book coat ring violin map hat clock cup letter knife umbrella mirror scarf rope kite drum")
_COLORS = _words("red blue green black white yellow brown golden")
_HOURS = _words("two three four five six seven eight nine ten eleven")
_TIMES = ["noon", "midnight", "dawn", "dusk", *(f"{hour} o'clock" for hour in _HOURS)]
_NUMBERS = [*_HOURS, "twelve", "twenty", "thirty", "forty", "fifty"]

# kind → how it is told, and (question, what answers it). What a question names must be true of one event only.
_TOLD: dict[str, tuple[str, ...]] = {
    "walk": ("{who} went to the {place} at {time}.", "At {time} {who} went to the {place}.",
             "{who} walked to the {place} at {time}."),
    "put": ("{who} put the {thing} in the {holder}.", "{who} moved the {thing} to the {holder}."),
    "give": ("{who} gave the {thing} to {whom}.", "{who} handed {whom} the {thing}."),
    "own": ("The {thing} belongs to {who}.", "{who} is the owner of the {thing}."),
    "pay": ("{who} paid {number} coins for the {thing}.", "The {thing} cost {who} {number} coins."),
}  # fmt: skip
_ASKED: dict[str, tuple[tuple[str, str], ...]] = {
    "walk": (("Where did {who} go at {time}?", "place"), ("When did {who} go to the {place}?", "time"),
             ("Who went to the {place} at {time}?", "who")),
    "put": (("Who put the {thing} in the {holder}?", "who"), ("What did {who} put in the {holder}?", "thing")),
    "give": (("Who gave the {thing} to {whom}?", "who"), ("What did {who} give to {whom}?", "thing"),
             ("Who got the {thing} from {who}?", "whom")),
    "own": (("Whose is the {thing}?", "who"), ("Who owns the {thing}?", "who")),
    "pay": (("How many coins did {who} pay for the {thing}?", "number"), ("Who paid for the {thing}?", "who"),
            ("What did {who} buy for {number} coins?", "thing")),
}  # fmt: skip
# Of the last event that concerns the thing or person (both roles are named), if it is of this kind.
_NOW: dict[str, tuple[str, str, str]] = {
    "walk": ("Where is {who} now?", "who", "place"),
    "put": ("Where is the {thing} now?", "thing", "holder"),
    "give": ("Who has the {thing} now?", "thing", "whom"),
}


@dataclass(frozen=True, slots=True)
class Story:
    """A question, the story that it is about, its answer, and the answer's first character in the story."""

    question: str
    document: str
    answer: str
    start: int


class _Event(NamedTuple):
    kind: str
    roles: dict[str, str]
    starts: dict[str, int]  # first character of each role in the story


def load(split: str) -> list[Story]:
    """The questions of a split, story by story."""
    if split not in SPLITS:
        raise CallError(f"stories has no split {split!r}{nearest(split, SPLITS)}")
    return _all()[split]


def split_of(document: str) -> str:
    bucket = zlib.crc32(document.encode()) % 100
    return "valid" if bucket < 4 else "test" if bucket < 12 else "train"


@cache
def _all() -> dict[str, list[Story]]:
    chance, seen = Random(20), set[str]()
    by_split: dict[str, list[Story]] = {split: [] for split in SPLITS}
    while len(seen) < STORIES:
        document, events = _story(chance)
        if document not in seen:
            seen.add(document)
            asked = sorted(_questions(events))
            some = chance.sample(asked, min(QUESTIONS, len(asked)))
            by_split[split_of(document)] += [
                Story(question, document, answer, start) for question, answer, start in some
            ]
    return by_split


def _story(chance: Random) -> tuple[str, list[_Event]]:
    people, places, holders = chance.sample(_PEOPLE, 4), chance.sample(_PLACES, 4), chance.sample(_HOLDERS, 3)
    nouns = chance.sample(_THINGS, 3)
    colors = chance.sample(_COLORS, 4)
    things = [
        f"{colors[0]} {nouns[0]}",
        f"{colors[1]} {nouns[0]}",
        *map(" ".join, zip(colors[2:], nouns[1:], strict=True)),
    ]
    times, numbers = iter(chance.sample(_TIMES, 10)), iter(chance.sample(_NUMBERS, 10))
    text, events = "", list[_Event]()
    for _ in range(chance.randint(6, 9)):
        kind = chance.choice(["walk", "walk", "put", "put", "give", "own", "pay"])
        who, whom = chance.sample(people, 2)
        roles = {
            "who": who, "whom": whom, "place": chance.choice(places), "holder": chance.choice(holders),
            "thing": chance.choice(things), "time": next(times), "number": next(numbers),
        }  # fmt: skip
        text += " " if text else ""
        told, starts = _tell(chance.choice(_TOLD[kind]), roles, len(text))
        text += told
        events.append(_Event(kind, roles, starts))
    return text, events


def _tell(template: str, roles: dict[str, str], at: int) -> tuple[str, dict[str, int]]:
    """The sentence, and where in the story each role begins in it."""
    text, starts = "", {}
    for part in re.split(r"(\{\w+\})", template):
        if part.startswith("{"):
            starts[part[1:-1]] = at + len(text)
            part = roles[part[1:-1]]
        text += part
    return text, starts


def _questions(events: list[_Event]) -> Iterator[tuple[str, str, int]]:
    for event in events:
        for question, role in _ASKED[event.kind]:
            named = [name for name in event.starts if f"{{{name}}}" in question]
            alike = [
                other for other in events
                if other.kind == event.kind and all(other.roles[name] == event.roles[name] for name in named)
            ]  # fmt: skip
            if len(alike) == 1:
                yield question.format(**event.roles), event.roles[role], event.starts[role]
    for kind, (question, about, role) in _NOW.items():
        moves = ("walk",) if kind == "walk" else ("put", "give")
        last = {event.roles[about]: event for event in events if event.kind in moves}
        for event in last.values():
            if event.kind == kind:
                yield question.format(**event.roles), event.roles[role], event.starts[role]
