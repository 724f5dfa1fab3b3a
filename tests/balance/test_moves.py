"""Moves of a plan that the cluster refuses."""

from typing import Any

import pytest

from raftka.balance import moves
from raftka.balance.moves import carry_out
from raftka.client.blocking.client import Where
from raftka.client.blocking.connection import ClientError
from raftka.metadata.balance import Move
from raftka.wire.errors import Code

MOVES = [Move((topic, 0), (1, 2), (3, 2), 10) for topic in ("deleted", "orders")]


def carried_out(monkeypatch: pytest.MonkeyPatch, code: Code) -> list[int]:
    """Return the progress where the cluster answers so for the topic that is deleted."""

    def alter(_: object, wanted: dict[Where, Any]) -> list[tuple[Where, Code]]:
        return [(where, code if where[0] == "deleted" else Code.NONE) for where in wanted]

    monkeypatch.setattr(moves, "alter_reassignments", alter)
    monkeypatch.setattr(moves, "list_reassignments", lambda _: [])
    monkeypatch.setattr(moves, "elect_leaders", lambda *_: [])
    shown: list[int] = []
    carry_out(None, MOVES, 0, {1, 2, 3}, shown.append)  # type: ignore[arg-type]
    return shown


def test_a_topic_that_is_deleted_meanwhile_ends_no_balance(monkeypatch: pytest.MonkeyPatch) -> None:
    assert carried_out(monkeypatch, Code.UNKNOWN_TOPIC_OR_PARTITION) == [2]


def test_a_move_that_is_refused_ends_it(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ClientError, match="deleted-0 cannot be moved: INVALID_REPLICA_ASSIGNMENT"):
        carried_out(monkeypatch, Code.INVALID_REPLICA_ASSIGNMENT)
