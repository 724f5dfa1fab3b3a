"""The requests that a fault hits: by API, version, topic, partition, group, transactional id,
client and node; from the n-th on, so many times, with a probability.

A selection that no request can ever match is refused; the error names the possible values.
"""

from collections.abc import Iterable, Mapping
from math import inf
from random import Random
from typing import TypedDict, cast

from raftka.broker.network.dispatch import HANDLERS
from raftka.broker.network.request import Request
from raftka.testing.faults.places import (
    GROUP,
    KINDS,
    PARTITION,
    TOPIC,
    TRANSACTION,
    Leaf,
    named_kinds,
)
from raftka.wire.errors import Code
from raftka.wire.schema import AnyApi, Row

LOGINS = ("SaslHandshake", "SaslAuthenticate")  # answered before the dispatcher has a client
Apis = str | int | Iterable[str | int] | None  # None: all
Error = str | int


class Choice(TypedDict, total=False):
    """The keywords with which methods of the cluster choose requests of clients.

    `nth=2` passes over the first matching request; `probability` is drawn for each later one from
    `seed`. `version` is a number or a range (low, high).
    """

    version: int | tuple[int, int]
    topic: str
    partition: int
    group: str
    transactional_id: str
    client_id: str
    nodes: Iterable[int]
    nth: int
    probability: float
    seed: int


def api_key(api: str | int) -> int:
    """Find an API by its name in Kafka's documentation, "Produce"; case does not matter. Raises
    ValueError.
    """
    names = {registration.api.name.lower(): key for key, registration in HANDLERS.items()}
    key = api if isinstance(api, int) else names.get(api.lower())
    if key not in HANDLERS:
        raise ValueError(
            f"no API {api!r}; there are "
            f"{', '.join(sorted(registration.api.name for registration in HANDLERS.values()))}"
        )
    return key


def api_keys(apis: Apis) -> tuple[int, ...]:
    """Find several APIs by their names; None: all. Raises ValueError."""
    if apis is None:
        return tuple(HANDLERS)
    if isinstance(apis, str | int):
        return (api_key(apis),)
    found = tuple(dict.fromkeys(api_key(each) for each in apis))
    if not found:
        raise ValueError("no API: name at least one, or None for all")
    return found


def named_apis(apis: Apis) -> str:
    """Return the APIs of a fault as its time line shows them."""
    if apis is None:
        return "all APIs"
    return str(apis) if isinstance(apis, str | int) else " ".join(map(str, apis))


def error_code(error: Error) -> Code:
    """Find an error by its name, "NOT_LEADER_OR_FOLLOWER", or its number. Raises ValueError."""
    try:
        return Code[error] if isinstance(error, str) else Code(error)
    except KeyError:
        raise ValueError(
            f"no error {error!r}: names are those of Kafka's documentation, as "
            "NOT_LEADER_OR_FOLLOWER"
        ) from None


class Selection:
    """Chooses requests. `leaf` is the topic, partition, group and transactional id that a request
    has to name; None in it: any.
    """

    def __init__(self, apis: Apis, where: Mapping[str, object], living: Iterable[int]) -> None:
        """`living`: ids of all nodes of the cluster. Raises ValueError for a selection that no
        request can match, TypeError for a keyword that there is not.
        """
        unknown = where.keys() - Choice.__annotations__.keys()
        if unknown:
            raise TypeError(
                f"requests are not chosen by {', '.join(sorted(unknown))}; there are "
                f"{', '.join(Choice.__annotations__)}"
            )
        chosen = cast(Choice, where)
        self.client_id = chosen.get("client_id")
        self.leaf = Leaf(
            chosen.get("topic"),
            chosen.get("partition"),
            chosen.get("group"),
            chosen.get("transactional_id"),
        )
        self.nth = chosen.get("nth", 1)
        self.probability = chosen.get("probability", 1.0)
        if not isinstance(self.nth, int) or self.nth < 1:
            raise ValueError(f"nth={self.nth}: a whole number, the first request is nth=1")
        if not 0.0 < self.probability <= 1.0:
            raise ValueError(f"probability={self.probability}: above 0, at most 1")
        self._random = Random(chosen.get("seed", 0))
        version = chosen.get("version")
        self.versions = (
            (0, inf)
            if version is None
            else (version, version)
            if isinstance(version, int)
            else version
        )
        self.nodes = frozenset(_known_nodes(chosen.get("nodes"), living))
        self.apis = self._possible(api_keys(apis), apis is None)

    def _possible(self, keys: tuple[int, ...], all_apis: bool) -> tuple[int, ...]:
        """Return the APIs whose requests can match. Raises ValueError when one cannot that was
        named.
        """
        wanted = [kind for kind in KINDS if getattr(self.leaf, kind) is not None]
        if PARTITION in wanted and TOPIC not in wanted:
            raise ValueError(f"partition={self.leaf.partition} needs a topic")
        possible = []
        for key in keys:
            api = HANDLERS[key].api
            refusal = self._refusal(api, wanted)
            if refusal is None:
                possible.append(key)
            elif not all_apis:
                raise ValueError(refusal)
        if not possible:
            raise ValueError(f"requests of no API name {' and '.join(wanted)}")
        return tuple(possible)

    def _refusal(self, api: AnyApi, wanted: Iterable[str]) -> str | None:
        if api.name in LOGINS:
            return (
                f"{api.name} is a part of the login, which no fault hits: refuse the user instead"
            )
        low, high = self.versions
        if low > high or high < api.min_version or low > api.max_version:
            return (
                f"{api.name} has versions {api.min_version} to {api.max_version}, "
                f"not {low} to {high}"
            )
        named = named_kinds(api)
        if PARTITION not in named and api.name in ("Metadata", "DescribeTopicPartitions"):
            named |= {PARTITION}  # their answers name them
        missing = [kind for kind in wanted if kind not in named]
        if missing:
            known = ", ".join(kind for kind in KINDS if kind in named) or "none of these"
            return f"requests of {api.name} name no {' and no '.join(missing)}; they name {known}"
        return None

    @property
    def is_of_a_part(self) -> bool:
        """The selection names a part of a request: a topic, a group or a transactional id."""
        return any(each is not None for each in self.leaf[:4])

    def fits(self, request: Request[Row]) -> bool:
        """Return whether version and client are those of the selection."""
        low, high = self.versions
        return low <= request.version <= high and (
            self.client_id is None or request.session.client_id == self.client_id
        )

    def draws(self) -> bool:
        """Decide by the probability whether a matching request is hit."""
        return self.probability == 1.0 or self._random.random() < self.probability

    def __str__(self) -> str:
        parts = [
            f"{kind}={value!r}"
            for kind, value in zip((TOPIC, PARTITION, GROUP, TRANSACTION), self.leaf, strict=False)
            if value is not None
        ]
        if self.client_id is not None:
            parts.append(f"client_id={self.client_id!r}")
        if self.nth > 1:
            parts.append(f"nth={self.nth}")
        if self.probability < 1.0:
            parts.append(f"probability={self.probability:g}")
        return ", ".join(parts)


def _known_nodes(nodes: Iterable[int] | None, living: Iterable[int]) -> list[int]:
    known = list(living)
    if nodes is None:
        return known
    chosen = list(nodes)
    if not chosen or set(chosen) - set(known):
        raise ValueError(f"nodes={chosen}: there are {known}")
    return chosen
