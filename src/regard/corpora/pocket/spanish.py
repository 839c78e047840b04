"""Spanish word forms: plurals, agreement, numbers, conjugation. Persons are counted I, you, he/she, we, they."""

from dataclasses import dataclass
from typing import Literal

Gender = Literal["m", "f"]
Forms = tuple[str, str, str, str, str]  # I, you (one, familiar), he/she/it, we, they

UNITS = [
    "cero",
    "uno",
    "dos",
    "tres",
    "cuatro",
    "cinco",
    "seis",
    "siete",
    "ocho",
    "nueve",
    "diez",
    "once",
    "doce",
    "trece",
    "catorce",
    "quince",
    "dieciséis",
]
UNITS += [
    "diecisiete",
    "dieciocho",
    "diecinueve",
    "veinte",
    "veintiuno",
    "veintidós",
    "veintitrés",
    "veinticuatro",
    "veinticinco",
]
UNITS += ["veintiséis", "veintisiete", "veintiocho", "veintinueve"]
TENS = {30: "treinta", 40: "cuarenta", 50: "cincuenta", 60: "sesenta", 70: "setenta", 80: "ochenta", 90: "noventa"}


def plural(noun: str) -> str:
    """casa → casas, ciudad → ciudades, actriz → actrices, canción → canciones."""
    if noun[-1] in "aeioué":
        return noun + "s"
    if noun[-1] == "z":
        return noun[:-1] + "ces"
    if noun[-2:] in ("ón", "ín"):  # the stress stays where it was, so the accent is no longer written
        return noun[:-2] + {"ón": "on", "ín": "in"}[noun[-2:]] + "es"
    return noun + "es"


def agree(adjective: str, gender: Gender, is_plural: bool) -> str:
    """rojo → roja, rojos, rojas; verde, azul, feliz do not change with gender."""
    if adjective == "joven" and is_plural:
        return "jóvenes"
    if gender == "f" and adjective.endswith("o"):
        adjective = adjective[:-1] + "a"
    return plural(adjective) if is_plural else adjective


def cardinal(number: int, gender: Gender) -> str:
    """Return 2 to 100 as used before a noun: veintiún libros, veintiuna casas, treinta y un libros, cien casas."""
    if number == 100:
        return "cien"
    tens, unit = (0, number) if number < 30 else (number // 10 * 10, number % 10)
    parts = [TENS[tens]] if tens else []
    if unit or not tens:
        last = UNITS[unit]
        if last.endswith("uno"):
            last = last[:-1] + "a" if gender == "f" else {"uno": "un", "veintiuno": "veintiún"}[last]
        parts.append(last)
    return " y ".join(parts)


@dataclass(frozen=True, slots=True)
class Conjugation:
    """The forms of one Spanish verb that the grammar uses. `past` translates an English past tense."""

    infinitive: str
    gerund: str
    present: Forms
    past: Forms


def conjugate(infinitive: str, present: str = "", past: str = "", gerund: str = "") -> Conjugation:
    """Return regular forms; irregular ones are arguments, five in a row, or one for "I" alone (conozco, busqué)."""
    stem, ending = infinitive[:-2], infinitive[-2:]
    endings = {"ar": "o as a amos an", "er": "o es e emos en", "ir": "o es e imos en"}[ending]
    past_endings = "é aste ó amos aron" if ending == "ar" else "í iste ió imos ieron"
    return Conjugation(
        infinitive,
        gerund or stem + ("ando" if ending == "ar" else "iendo"),
        _forms(stem, endings, present),
        _forms(stem, past_endings, past),
    )


def _forms(stem: str, endings: str, given: str) -> Forms:
    regular = [stem + ending for ending in endings.split()]
    first, second, third, we, they = [*given.split(), *regular[len(given.split()) :]]
    return first, second, third, we, they
