"""The table of a Fetch's states: its methods take each transition, and no other one is allowed."""

from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from raftka.broker.fetch.fetch import TRANSITIONS, Event, Fetch, State
from raftka.broker.fetch.sessions import CachedPartition, FetchSession, Reader
from raftka.broker.telemetry.metrics import Metrics
from raftka.broker.work.long_work import Steps, drained
from raftka.wire.errors import Code
from raftka.wire.messages.fetch import FETCH


class Scene:
    """A Fetch of one partition without records, whose timer and slices the test runs."""

    def __init__(self, *, lasting: bool = True) -> None:
        self.work: list[tuple[Steps[Any], Callable[[Any], None]]] = []
        self.timers: list[Callable[[], None]] = []
        connection: Any = SimpleNamespace(
            gone=False,
            slot=lambda early: SimpleNamespace(
                connection=connection, complete_early=early, complete=lambda parts: None
            ),
        )
        dispatcher: Any = SimpleNamespace(
            long_work=SimpleNamespace(slices=0, run=self._run), encoded=lambda request, row: ()
        )
        request: Any = SimpleNamespace(
            api=FETCH,
            version=12,
            body=FETCH.request(max_bytes=1000, min_bytes=1, max_wait_ms=1000, session_epoch=1),
            dispatcher=dispatcher,
            connection=connection,
            **dict.fromkeys(("meter", "slot", "promised", "spent")),
        )
        clock = SimpleNamespace(now=lambda: 0.0, call_at=self._call_at)
        context = SimpleNamespace(
            runtime=SimpleNamespace(clock=clock),
            metrics=Metrics(),
            metadata=SimpleNamespace(settings={"fetch.max.bytes": 1000}),
        )
        replicas: Any = SimpleNamespace(context=context)
        sessions: Any = SimpleNamespace(end=lambda session: None)
        self.session = FetchSession(Reader(-1, -1), 0.0, by_id=False)
        self.session.lasting = lasting
        topic = FETCH.request.topics(topic="t")
        cached = CachedPartition(self.session, topic, topic_row(), 1)
        self.session.partitions["t", 0] = cached
        self.fetch = Fetch(request, sessions, replicas)

    def _call_at(self, _: float, action: Callable[[], None]) -> Any:
        self.timers.append(action)
        return SimpleNamespace(cancel=lambda: None)

    def _run(
        self, _: str, steps: Steps[Any], done: Callable[[Any], None], *rest: object, **more: object
    ) -> None:
        self.work.append((steps, done))

    def attach(self) -> None:
        self.fetch.attach(self.session, incremental=True)

    def wait(self) -> None:
        self.attach()
        drained(self.fetch.outcome())

    def ring(self) -> None:
        self.timers[0]()

    def finish_reading(self) -> None:
        steps, done = self.work.pop(0)
        done(drained(steps))

    def take(self, event: Event) -> None:
        """Let happen what the event stands for."""
        {
            Event.WATCH: lambda: drained(self.fetch._watch_all()),
            Event.OVERTAKE: self.fetch.overtaken,
            Event.PARK: lambda: self.fetch.park(1.0),
            Event.CHANGE: self.fetch.records_arrived,
            Event.HURRY: self.ring,
            Event.TOO_LITTLE: self.finish_reading,
            Event.END: self.fetch.abandon,
        }[event]()


def topic_row() -> Any:
    return FETCH.request.topics.partitions(partition=0)


def scene_in(state: State) -> Scene:
    """Bring a Fetch into the state by its own methods."""
    scene = Scene(lasting=state is not State.READING)
    steps: Mapping[State, tuple[Callable[[], object], ...]] = {
        State.READING: (scene.attach,),
        State.WATCHING: (scene.attach,),
        State.OVERTAKEN: (scene.attach, scene.fetch.overtaken),
        State.PARKED: (scene.wait,),
        State.READING_AGAIN: (scene.wait, scene.fetch.records_arrived),
        State.WOKEN: (scene.wait, scene.fetch.records_arrived, scene.fetch.records_arrived),
        State.HURRIED: (scene.wait, scene.ring),
        State.OVER: (scene.wait, scene.fetch.overtaken),
    }
    for step in steps[state]:
        step()
    assert scene.fetch.state is state
    return scene


@pytest.mark.parametrize(
    ("state", "event", "expected"),
    [
        pytest.param(state, event, expected, id=f"{state.name}-{event.name}")
        for state, row in TRANSITIONS.items()
        for event, expected in row.items()
    ],
)
def test_each_transition_is_taken(state: State, event: Event, expected: State) -> None:
    scene = scene_in(state)

    scene.take(event)

    assert scene.fetch.state is expected


@pytest.mark.parametrize("state", State, ids=lambda state: state.name)
def test_no_other_transition_is_allowed(state: State) -> None:
    for event in set(Event) - TRANSITIONS[state].keys():
        scene = scene_in(state)
        with pytest.raises(KeyError):
            scene.fetch._on(event)


def test_each_state_but_the_first_is_entered() -> None:
    entered = {state for row in TRANSITIONS.values() for state in row.values()}

    assert entered == set(State) - {State.READING}


def test_parked_fetch_is_counted_until_it_is_over() -> None:
    scene = scene_in(State.PARKED)
    metrics = scene.fetch.replicas.context.metrics

    assert (metrics.parked_fetches, scene.session.parked) == (1, scene.fetch)
    scene.ring()
    scene.finish_reading()
    assert (metrics.parked_fetches, scene.session.parked) == (0, None)
    assert scene.fetch.state is State.OVER


def test_overtaken_fetch_is_answered_without_waiting() -> None:
    scene = scene_in(State.OVERTAKEN)

    answer: Any = drained(scene.fetch.outcome())

    assert answer.error_code == Code.INVALID_FETCH_SESSION_EPOCH
    assert scene.fetch.state is State.OVER
