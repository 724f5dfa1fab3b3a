"""Areas on a map, and the trucks that enter and leave them. Plain functions over positions in the
order of their time; Spark's side is in projects/trucks/.

Areas are a GeoJSON file: polygons with a `name` among their properties.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from raftka.json_values import Json
from raftka.pipeline.errors import OptionRefused

Ring = tuple[tuple[float, float], ...]  # longitude, latitude: as GeoJSON has them


@dataclass(frozen=True, slots=True)
class Fence:
    name: str
    rings: tuple[Ring, ...]  # the first one is the border, the others are holes

    def holds(self, longitude: float, latitude: float) -> bool:
        return sum(crossed(ring, longitude, latitude) for ring in self.rings) % 2 == 1


class Position(NamedTuple):
    at_us: int
    latitude: float
    longitude: float


class Move(NamedTuple):
    event: str  # ENTER or LEAVE
    fence: str
    position: Position


class Whereabouts(NamedTuple):
    """The last known state of a truck."""

    at_us: int
    inside: frozenset[str]


NOWHERE = Whereabouts(-(2**63), frozenset())


def crossed(ring: Ring, x: float, y: float) -> bool:
    """Return whether a ray to the east crosses the ring an odd number of times."""
    odd = False
    for (x1, y1), (x2, y2) in zip(ring, ring[1:] + ring[:1], strict=True):
        if (y1 > y) != (y2 > y) and x < (x2 - x1) * (y - y1) / (y2 - y1) + x1:
            odd = not odd
    return odd


def moves(
    fences: Iterable[Fence], known: Whereabouts, positions: Iterable[Position]
) -> tuple[list[Move], Whereabouts]:
    """Return the fences entered and left. A position that is not later than the last known one is
    skipped.
    """
    fences = tuple(fences)
    found: list[Move] = []
    for each in sorted(positions):
        if each.at_us > known.at_us:
            inside = frozenset(
                fence.name for fence in fences if fence.holds(each.longitude, each.latitude)
            )
            found += [Move(event, name, each) for event, name in moved(known.inside, inside)]
            known = Whereabouts(each.at_us, inside)
    return found, known


def moved(before: frozenset[str], now: frozenset[str]) -> Iterator[tuple[str, str]]:
    """Yield an event and the fence for each fence that was left or entered."""
    yield from (("LEAVE", name) for name in sorted(before - now))
    yield from (("ENTER", name) for name in sorted(now - before))


def load_fences(path: Path) -> tuple[Fence, ...]:
    """Read the areas of a GeoJSON file. Raises OptionRefused."""
    try:
        return tuple(_fences(json.loads(path.read_text())))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise OptionRefused(
            f"{path} is no GeoJSON of polygons with names: {type(error).__name__} {error}"
        ) from None


def _fences(document: Mapping[str, Json]) -> Iterator[Fence]:
    for feature in document["features"]:
        if feature["geometry"]["type"] != "Polygon":
            raise ValueError(f"a {feature['geometry']['type']}")
        rings = feature["geometry"]["coordinates"]
        yield Fence(
            str(feature["properties"]["name"]),
            tuple(tuple((float(point[0]), float(point[1])) for point in ring) for ring in rings),
        )
