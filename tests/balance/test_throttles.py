"""Throttles of a balance are removed however it ends; those of an operator stay."""

from types import SimpleNamespace
from typing import Any

import pytest

from raftka.balance import moves
from raftka.balance.moves import FOLLOWERS, LEADERS, RATES, Throttles
from raftka.client.blocking.connection import ClientError
from raftka.client.blocking.settings import GIVEN, Changes
from raftka.metadata.balance import Move
from raftka.wire.errors import Code

Resource = tuple[str, str]
MOVES = [Move(("orders", 0), (1, 2), (3, 2), 10), Move(("orders", 1), (2, 1), (3, 1), 10)]
ORDERS = ("topic", "orders")


class Cluster:
    """Settings as a cluster keeps them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.settings: dict[Resource, dict[str, str]] = {}
        self.code = Code.NONE
        monkeypatch.setattr(moves, "describe_settings", self._describe)
        monkeypatch.setattr(moves, "change_settings", self._change)

    def _describe(self, _: object, kind: str, name: str) -> Any:
        found = self.settings.get((kind, name), {})
        row = {"config_source": GIVEN[kind]}
        return SimpleNamespace(
            configs=[
                SimpleNamespace(name=name, value=value, **row) for name, value in found.items()
            ]
        )

    def _change(self, _: object, kind: str, name: str, changes: Changes) -> Any:
        own = self.settings.setdefault((kind, name), {})
        for setting, (operation, value) in changes.items() if self.code == Code.NONE else ():
            before = own.pop(setting, "").split(",")
            after = {
                "SET": [value or ""],
                "DELETE": [],
                "APPEND": [*before, *(value or "").split(",")],
                "SUBTRACT": [each for each in before if each not in (value or "").split(",")],
            }[operation]
            if text := ",".join(each for each in after if each):
                own[setting] = text
        return [SimpleNamespace(error_code=self.code)]

    def throttled(self) -> Throttles:
        """Return the throttles of all moves, which are under way."""
        throttles = Throttles(None, 1_000, {1, 2, 3})  # type: ignore[arg-type]
        throttles.begin(MOVES)
        return throttles


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Cluster:
    return Cluster(monkeypatch)


@pytest.mark.parametrize("ended", [0, 1, 2])
def test_all_throttles_go_with_the_balance(cluster: Cluster, ended: int) -> None:
    throttles = cluster.throttled()
    assert cluster.settings[ORDERS][FOLLOWERS] == "0:3,1:3"
    assert cluster.settings["broker", "3"] == dict.fromkeys(RATES, "1000")
    throttles.end(MOVES[:ended])
    throttles.close()

    assert not any(cluster.settings.values())


@pytest.mark.parametrize("ended", [0, 1, 2])
@pytest.mark.parametrize("given", ["0:1,5:2", "*"])
def test_those_of_an_operator_stay(cluster: Cluster, ended: int, given: str) -> None:
    before = {ORDERS: {LEADERS: given}, ("broker", "1"): {RATES[1]: "77"}}
    cluster.settings = {key: dict(value) for key, value in before.items()}
    throttles = cluster.throttled()
    assert cluster.settings["broker", "1"] == {RATES[0]: "1000", RATES[1]: "77"}
    throttles.end(MOVES[:ended])
    throttles.close()

    assert {key: value for key, value in cluster.settings.items() if value} == before


def test_nothing_moves_without_the_throttle_that_was_wanted(cluster: Cluster) -> None:
    cluster.code = Code.CLUSTER_AUTHORIZATION_FAILED

    with pytest.raises(ClientError, match="no right to throttle broker 1"):
        cluster.throttled()
