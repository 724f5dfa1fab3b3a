"""The time for which the loop was kept from others, in the metrics: as a histogram, and with the
name of each piece of a turn that took long.
"""

import io
import json
from functools import partial
from types import SimpleNamespace

import pytest
import trio

from raftka.broker.telemetry.event_log import Events
from raftka.broker.telemetry.metrics import Metrics
from raftka.broker.telemetry.turn_times import TurnTimes, name_of
from raftka.runtime.interfaces import LONG_PIECE_S
from raftka.runtime.real.runtime import open_runtime
from raftka.runtime.real.turn import Turn


class Watch:
    def __init__(self) -> None:
        self.turns: list[float] = []
        self.second = trio.Event()
        self.pieces: list[tuple[float, object]] = []

    def turn(self, took_s: float) -> None:
        self.turns.append(took_s)
        if len(self.turns) == 2:
            self.second.set()

    def long(self, took_s: float, piece: object) -> None:
        self.pieces.append((took_s, piece))


async def test_each_turn_with_events_is_reported() -> None:
    watch, done = Watch(), trio.Event()
    async with open_runtime() as runtime:
        runtime.watch_turns(watch)
        runtime.clock.call_at(runtime.clock.now(), done.set)
        with trio.fail_after(10):
            await done.wait()
            runtime.clock.at_turn_end(lambda: None)
            await watch.second.wait()
    assert all(took >= 0 for took in watch.turns)


def test_a_piece_above_the_bound_is_reported_with_what_was_called(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = [0.0]
    monkeypatch.setattr("raftka.runtime.real.turn.monotonic", lambda: now[0])
    turn, watch = Turn(), Watch()
    turn.watch = watch
    for took, piece in ((LONG_PIECE_S, "short"), (LONG_PIECE_S + 0.01, "long"), (0.01, "short")):
        now[0] += took
        turn.done(piece)
    assert [piece for _, piece in watch.pieces] == ["long"]


def test_a_long_piece_is_a_line_in_the_log_and_a_count() -> None:
    log, metrics = io.StringIO(), Metrics()
    times = TurnTimes(metrics, Events(log, lambda: 0, "info"))
    times.turn(0.003)
    times.long(0.25, SimpleNamespace(connection=SimpleNamespace(handled="CreateTopics")))

    line = json.loads(log.getvalue())
    assert (line["event"], line["handler"], line["ms"]) == ("long_turn", "CreateTopics", 250)
    assert metrics.counters["raftka_long_turns_total"] == 1
    assert metrics.turns.count == 1


def test_a_piece_is_named_by_its_request_or_its_function() -> None:
    assert name_of(SimpleNamespace(connection=SimpleNamespace(handled="Metadata"))) == "Metadata"
    assert name_of(partial(name_of, 1)) == "name_of"
    assert name_of(Watch().turn) == "Watch.turn"
