"""Detect colored shapes in the pixels of a picture, and check whether they match a sentence.

    unmix      a pixel is  ground + t (color − ground):  the color whose line it is nearest to, and t, how much of it
    connect    pixels of one color with t > ½ that are neighbors are one thing
    name       of the five shapes with the thing's own area and centroid, the one that covers it best

Things are detected, not compared with one reference picture, because a sentence leaves positions and sizes open.
"""

import re
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int, UInt8

from regard.corpora.shapes import COLORS, RELATIONS, SHADES, SHAPES, SIDE, Scene, Thing, inside
from regard.errors import CallError

LEAST = 10 / SIDE**2  # share of the picture below which a blot is ignored: a quarter of the smallest shape
FITS = 0.6  # of intersection over union, below which a shape is unknown
NO_SHAPE = "blot"

_THING = rf"an? ({'|'.join(COLORS)}) ({'|'.join(SHAPES)})"
_FIRST = re.compile(rf"{_THING}( is)?")
_OTHER = re.compile(rf" ({'|'.join(RELATIONS)}) {_THING}")


def parse_caption(text: str) -> Scene:
    """Return the scene of a caption of the corpus, without positions."""
    first = _FIRST.match(text)
    others, rest = [], "" if first is None else text[first.end() :]
    while other := _OTHER.match(rest):
        others.append((other[1], Thing(other[2], other[3])))
        rest = rest[other.end() :].removeprefix(" and")
    if first is None or not others or rest:
        raise CallError(f"{text!r} is not a sentence of corpus:shapes, such as 'a red circle above a blue square'")
    return Scene(Thing(first[1], first[2]), tuple(others))


class SceneVerdict(NamedTuple):
    """`things`: exactly these shapes in these colors. `relations`: their relations are right, too."""

    things: bool
    relations: bool


def judge_scene(scene: Scene, found: list[Thing]) -> SceneVerdict:
    """Compare detected things with a scene. One thing is above another if the step is more vertical than horizontal."""
    places = {thing.name: (thing.row, thing.column) for thing in found}
    if len(found) != len(scene.things) or places.keys() != {thing.name for thing in scene.things}:
        return SceneVerdict(False, False)
    start = np.array(places[scene.first.name])
    return SceneVerdict(
        True, all(_direction(np.array(places[thing.name]) - start) == relation for relation, thing in scene.others)
    )


def _direction(way: Float[np.ndarray, "2"]) -> str:
    """Return the relation whose step (rows, columns) is nearest to the direction of `way`."""
    return max(RELATIONS, key=lambda relation: float(np.dot(RELATIONS[relation][1], way)))


def detect_things(picture: UInt8[np.ndarray, "H W 3"]) -> list[Thing]:
    """Return all things of a picture of any size; unknown ones have `shape` "blot"."""
    pixels = picture.astype(float)
    ground = np.median(pixels.reshape(-1, 3), axis=0)  # shapes never cover half of a picture
    color, amount = _unmix_colors(pixels, ground)
    found = []
    for number, name in enumerate(COLORS):
        for part in _connected_parts((color == number) & (amount > 0.5)):
            if part.mean() >= LEAST:
                around = _grow(part)
                found.append(_name_color(name, np.where(around, np.where(color == number, amount, 0.0), 0.0)))
    return found


def _unmix_colors(
    pixels: Float[np.ndarray, "H W 3"], ground: Float[np.ndarray, "3"]
) -> tuple[Int[np.ndarray, "H W"], Float[np.ndarray, "H W"]]:
    """Return the color of each pixel, and its share, 0 to 1."""
    lines = np.array(list(COLORS.values()), float) - ground
    away = pixels - ground
    amounts = np.clip(away @ lines.T / np.maximum((lines**2).sum(1), 1.0), 0, 1)
    rest = ((away[..., None, :] - amounts[..., None] * lines) ** 2).sum(-1)
    color = rest.argmin(-1)
    return color, np.take_along_axis(amounts, color[..., None], -1)[..., 0]


def _connected_parts(mask: Bool[np.ndarray, "H W"]) -> list[Bool[np.ndarray, "H W"]]:
    """Return the 4-connected components of a mask."""
    left, parts = set(zip(*(places.tolist() for places in mask.nonzero()), strict=True)), []
    while left:
        reached = [left.pop()]
        for row, column in reached:  # the list grows during the loop
            near = {(row + 1, column), (row - 1, column), (row, column + 1), (row, column - 1)} & left
            left -= near
            reached += near
        parts.append(np.zeros_like(mask))
        parts[-1][tuple(zip(*reached, strict=True))] = True
    return parts


def _grow(part: Bool[np.ndarray, "H W"]) -> Bool[np.ndarray, "H W"]:
    """Return the mask with its neighbors above, below, left and right."""
    larger = part.copy()
    larger[1:] |= part[:-1]
    larger[:-1] |= part[1:]
    larger[:, 1:] |= part[:, :-1]
    larger[:, :-1] |= part[:, 1:]
    return larger


def _name_color(color: str, cover: Float[np.ndarray, "H W"]) -> Thing:
    area = cover.sum()
    row, column = (float((cover * (place + 0.5)).sum() / area) for place in np.indices(cover.shape))
    top, left = (max(0, int(place - np.sqrt(area))) for place in (row, column))
    window = cover[top : int(row + np.sqrt(area)) + 2, left : int(column + np.sqrt(area)) + 2]
    best, fit = Thing(color, NO_SHAPE, row, column), FITS
    for shape in SHAPES:
        unit, low = _moments(shape)
        radius = float(np.sqrt(area / unit))
        middle = row - low * radius
        template = _cover(shape, (middle - top) / radius, (column - left) / radius, radius, window.shape)
        shared = np.minimum(window, template).sum()
        overlap = float(shared / (area + template.sum() - shared))
        if overlap > fit:
            best, fit = Thing(color, shape, middle, column, radius), overlap
    return best


@lru_cache
def _moments(shape: str) -> tuple[float, float]:
    """Return the area of a shape of radius 1, and the distance of its centroid below its middle."""
    grid = (np.arange(400) + 0.5) / 200 - 1
    points = inside(shape, grid, grid[:, None])
    return 4 * float(points.mean()), float((points.sum(1) * grid).sum() / points.sum())


def _cover(shape: str, row: float, column: float, radius: float, size: tuple[int, ...]) -> Float[np.ndarray, "H W"]:
    """Return how much of each pixel a shape covers whose middle is at (row, column), in units of its radius."""
    v, u = ((np.arange(side * SHADES) + 0.5) / SHADES / radius for side in size)
    return inside(shape, u - column, v[:, None] - row).reshape(size[0], SHADES, size[1], SHADES).mean((1, 3))
