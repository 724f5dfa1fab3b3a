"""Every script under tests/scripts/replication, and for each rule a planted bug that its script
must catch.

A script is blocks: commands, `----`, what must come out. A command is a word, bare numbers and
`name=value`; `pytest --rewrite` is not needed: the failure shows the whole block as it came out.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from raftka.replication import follower as follower_module
from raftka.replication.follower import Answer, FollowerFetch
from raftka.replication.partition import Altered, AlterIsr, FollowerState, LeaderState
from raftka.wire.errors import Code, KafkaError

SCRIPTS = Path(__file__).parent.parent / "scripts" / "replication"


class LeaderStage:
    """Commands of the leader's scripts. The image is what the controller last said, time is what
    `at` said.
    """

    def __init__(self) -> None:
        self.now = 0.0
        self.state: LeaderState
        self.live: dict[int, int] = {}
        self.asked: list[AlterIsr] = []

    def leader(
        self,
        *,
        epoch: int = 5,
        isr: list[int],
        start: int = 0,
        flushed: int = 0,
        hw: int = 0,
        min_isr: int = 1,
        **rest: Any,
    ) -> Any:
        self.live = rest.get("live", {1: 11, 2: 12, 3: 13})
        replicas = rest.get("replicas", [1, 2, 3])
        self.state = LeaderState(
            1,
            epoch,
            rest.get("pe", 0),
            replicas,
            isr,
            start,
            flushed,
            hw,
            self.now,
            10.0,
            min_isr,
            self.live,
            rest.get("elr", ()),
        )
        return self.show()

    def appended(self, log_end: int) -> Any:
        return self.state.appended(log_end)

    def flushed(self, offset: int) -> Any:
        return self.state.flushed(offset)

    def fetched(self, replica: int, offset: int, *, be: int | None = None) -> Any:
        return self.state.fetched(
            replica, offset, self.now, self.live.get(replica, -1) if be is None else be
        )

    def was_there(self, replica: int, when: float) -> Any:
        self.state.was_there(replica, when)
        return []

    def at(self, now: float) -> Any:
        self.now = now
        return self.state.tick(now)

    def answer(
        self,
        *,
        error: str = "",
        isr: Sequence[int] = (),
        pe: int = -1,
        elr: Sequence[int] = (),
        to: int = -1,
    ) -> Any:
        if not self.asked:
            return ["nothing was asked"]
        return self.state.alter_answered(
            self.asked[to], Code[error] if error else Altered(tuple(isr), pe, tuple(elr)), self.now
        )

    def image(
        self,
        *,
        isr: list[int],
        pe: int,
        live: Mapping[int, int] | None = None,
        replicas: Sequence[int] = (1, 2, 3),
        min_isr: int | None = None,
        elr: Sequence[int] = (),
    ) -> Any:
        self.live = dict(live) if live is not None else self.live
        view = SimpleNamespace(
            replicas=replicas,
            isr=isr,
            leader_epoch=self.state.leader_epoch,
            partition_epoch=pe,
            elr=elr,
        )
        return self.state.on_image(view, self.live, self.now, min_isr)

    def show(self) -> Any:
        s = self.state
        return [
            (
                f"hw={s.high_watermark} isr={join(s.isr)} under_min_isr={s.under_min_isr} "
                f"knows_its_end={s.knows_its_end}"
            ).lower()
        ]

    def deadline(self) -> Any:
        return [f"{self.state.deadline():g}"]

    def told(self, effect: Any) -> None:
        if isinstance(effect, AlterIsr):
            self.asked.append(effect)


class FollowerStage:
    """Commands of the followers' scripts; the log is a list of (epoch, start offset) and an end."""

    def __init__(self) -> None:
        self.now = 0.0
        self.epochs: list[tuple[int, int]] = []
        self.end = self.start = 0
        self.fetch: FollowerFetch

    def follower(
        self, *, epoch: int, log: list[int], hw: int = 0, flushed: int | None = None
    ) -> Any:
        """log=4:0,5:10,20: epoch 4 from 0, epoch 5 from 10, end 20."""
        self.end = log[-1]
        self.epochs = list(log[:-1])  # type: ignore[arg-type]
        state = FollowerState(2, epoch, self.end, hw)
        self.fetch = FollowerFetch(
            state,
            0,
            self.end,
            self.end if flushed is None else flushed,
            self.latest(),
            self.epoch_end,
        )
        return self.fetch.start()

    def next(self) -> Any:
        position = self.fetch.next_fetch(self.now)
        return (
            []
            if position is None
            else [
                f"fetch {position.fetch_offset} last_epoch={position.last_fetched_epoch} "
                f"epoch={position.leader_epoch}"
            ]
        )

    def answer(
        self,
        *,
        error: str = "NONE",
        hw: int = -1,
        start: int = 0,
        records: int = 0,
        diverging: list[int] | None = None,
    ) -> Any:
        pair = (diverging[0], diverging[1]) if diverging else None
        return self.fetch.answered(Answer(Code[error], hw, start, bytes(records), pair), self.now)

    def append(self, end: int, *, epoch: int) -> Any:
        """Append batches of `epoch` up to `end`, as the log does."""
        if epoch != self.latest():
            self.epochs.append((epoch, self.end))
        self.end = end
        return self.fetch.appended(self.end, self.latest())

    def flushed(self, offset: int) -> Any:
        return self.fetch.flushed(offset)

    def truncate(self, end: int) -> Any:
        self.end = end
        self.epochs = [(epoch, start) for epoch, start in self.epochs if start < end]
        return self.fetch.truncated(end, self.latest())

    def afresh(self, start: int) -> Any:
        self.end, self.epochs = start, []
        return self.fetch.truncated(start, -1)

    def offsets(self, start: int, end: int) -> Any:
        return self.fetch.offsets(start, end)

    def failed(self) -> Any:
        return self.fetch.failed(self.now)

    def at(self, now: float) -> Any:
        self.now = now
        return []

    def show(self) -> Any:
        return [f"{self.fetch.phase.value}, hw={self.fetch.state.high_watermark}"]

    def told(self, effect: Any) -> None: ...

    def latest(self) -> int:
        return self.epochs[-1][0] if self.epochs else -1

    def epoch_end(self, epoch: int) -> tuple[int, int]:
        ends = [*(start for _, start in self.epochs[1:]), self.end]
        return next(
            (
                (e, end)
                for (e, _), end in reversed(list(zip(self.epochs, ends, strict=True)))
                if e <= epoch
            ),
            (-1, -1),
        )


# -- the player
# --------------------------------------------------------------------------------------------------


def join(values: Any) -> str:
    return ",".join(str(v) for v in values)


def value(text: str) -> Any:
    """`1`, `1.5`, `NAME`, `1,2`, `1:11,2:12` (a mapping, or pairs when the last has no colon); a
    name ending in a list keeps it a list.
    """
    if "," in text or ":" in text:
        items = [
            tuple(map(int, item.split(":"))) if ":" in item else int(item)
            for item in text.split(",")
        ]
        return dict(items) if all(isinstance(i, tuple) for i in items) else items  # type: ignore[arg-type]
    try:
        return float(text) if "." in text else int(text)
    except ValueError:
        return text


LISTS = {"elr", "isr", "replicas", "log", "diverging"}


def perform(stage: Any, line: str) -> list[str]:
    words = line.partition("#")[0].split()
    positional = [value(w) for w in words[1:] if "=" not in w]
    named = {k: value(v) for k, v in (w.split("=") for w in words[1:] if "=" in w)}
    named = {k: [v] if k in LISTS and not isinstance(v, list) else v for k, v in named.items()}
    try:
        came = getattr(stage, words[0])(*positional, **named)
    except KafkaError as error:
        return [f"error {error.code.name}"]
    for effect in came:
        stage.told(effect)
    return [e if isinstance(e, str) else text_of(e) for e in came]


def text_of(effect: Any) -> str:
    if isinstance(effect, AlterIsr):
        return f"AlterIsr {join(f'{i}:{e}' for i, e in effect.isr)} pe={effect.partition_epoch}"
    fields = [
        len(v) if isinstance(v, bytes) else v
        for v in (getattr(effect, name) for name in effect.__slots__)
    ]
    return " ".join([type(effect).__name__, *map(str, fields)])


def play(path: Path) -> tuple[str, str]:
    """The script as it is, and as it came out."""
    stage: Any = FollowerStage() if path.stem.startswith("follower") else LeaderStage()
    expected, actual = [], []
    for block in path.read_text().strip().split("\n\n"):
        lines = block.splitlines()
        if "----" not in lines:  # a comment of its own
            continue
        commands = lines[: lines.index("----") + 1]
        came = [
            out
            for line in commands[:-1]
            if not line.startswith("#")
            for out in perform(stage, line)
        ]
        expected.append(block)
        actual.append("\n".join(commands + came))
    return "\n\n".join(expected), "\n\n".join(actual)


@pytest.mark.parametrize("path", sorted(SCRIPTS.glob("*.txt")), ids=lambda p: p.stem)
def test_script(path: Path) -> None:
    expected, actual = play(path)

    assert actual == expected
    assert expected


# -- planted bugs
# --------------------------------------------------------------------------------------------------


def counting_only(
    isr_member: Callable[[LeaderState, Any], bool],
    own: str = "flushed_offset",
    awaiting: bool = True,
) -> Callable[[LeaderState], int]:
    def durable_everywhere(self: LeaderState) -> int:
        offsets = [
            f.end_offset
            for f in self._followers.values()
            if isr_member(self, f) or (awaiting and self._about_to_join(f))
        ]
        return int(min([getattr(self, own), *offsets]))

    return durable_everywhere


def sets(name: str, number: Callable[..., Any], then: Any = ()) -> Callable[..., Any]:
    """A method that does nothing but set an attribute."""

    def method(self: Any, *args: Any) -> Any:
        setattr(self, name, number(self, *args))
        return then

    return method


def believes_any_epoch(self: LeaderState, replica: int, broker_epoch: int) -> Any:
    self._followers[replica].broker_epoch = broker_epoch
    return self._followers[replica]


def without_cap(self: LeaderState, replicas: Sequence[int]) -> None:
    ASSIGN(self, replicas)
    self.min_isr = self._min_isr


ASSIGN = LeaderState._assign
ADOPT = LeaderState._adopt


def goes_back(self: LeaderState) -> Any:
    self.high_watermark = self._durable_everywhere()
    return ()


def keep_pending_on_image(
    self: LeaderState, partition: Any, live: Any, now: float, min_isr: int | None = None
) -> Any:
    self._live = live
    return self._advance()


def adopts_any_answer(self: LeaderState, request: AlterIsr, answer: Any, now: float) -> Any:
    if isinstance(answer, Altered):
        self.pending = None
        self._adopt(answer.isr, answer.partition_epoch, answer.elr)
    return self._advance()


def forgets_on_error(self: LeaderState, request: AlterIsr, answer: Any, now: float) -> Any:
    self.pending = None
    self._adopt(
        *(
            (answer.isr, answer.partition_epoch, answer.elr)
            if isinstance(answer, Altered)
            else (self.isr, self.partition_epoch, self.elr)
        )
    )
    return self._advance()


def always_there(self: LeaderState, replica: int, when: float) -> None:
    if replica in self._followers:
        self._followers[replica].caught_up = self._followers[replica].fetch_time = when


def flush_skipped(self: FollowerFetch) -> Any:
    self._flushed_offset = self._log_end
    self.phase = follower_module.Phase.READY
    return ()


PLANTED = [
    (
        "high_watermark",
        LeaderState,
        "_durable_everywhere",
        counting_only(lambda s, f: f.counts, own="log_end_offset"),
    ),
    ("high_watermark", LeaderState, "_durable_everywhere", lambda self: self.flushed_offset),
    ("high_watermark_never_back", LeaderState, "_advance", goes_back),
    ("min_isr", LeaderState, "under_min_isr", property(lambda self: False)),
    ("min_isr", LeaderState, "_assign", without_cap),
    ("elr", LeaderState, "_adopt", lambda self, isr, pe, elr: ADOPT(self, isr, pe, ())),
    ("shrink", LeaderState, "_caught_up", lambda self, f: True),
    (
        "shrink",
        LeaderState,
        "_caught_up",
        lambda self, f: self._now - f.caught_up <= self.lag_time_max_s,
    ),
    ("shrink", LeaderState, "_caught_up", lambda self, f: f.end_offset == self.log_end_offset),
    ("expand", LeaderState, "_in_sync", lambda self, f: True),
    ("expand", LeaderState, "_in_sync", lambda self, f: f.end_offset >= self.high_watermark),
    ("expand", LeaderState, "_in_sync", lambda self, f: f.end_offset >= self.epoch_start_offset),
    (
        "expand",
        LeaderState,
        "_durable_everywhere",
        counting_only(lambda s, f: f.id in s.isr, awaiting=False),
    ),
    ("about_to_join", LeaderState, "_about_to_join", lambda self, f: False),
    ("about_to_join", LeaderState, "_about_to_join", LeaderState._caught_up),
    ("broker_epoch", LeaderState, "_eligible", lambda self, f: True),
    ("broker_epoch", LeaderState, "_eligible", lambda self, f: f.id in self._live),
    (
        "broker_epoch",
        LeaderState,
        "_eligible",
        lambda self, f: f.broker_epoch == self._live.get(f.id),
    ),
    ("broker_epoch", LeaderState, "_introduced", believes_any_epoch),
    ("one_in_flight", LeaderState, "_may_ask", lambda self: True),
    ("alter_errors", LeaderState, "alter_answered", forgets_on_error),
    ("alter_errors", LeaderState, "_repeat", lambda self, request: ()),
    ("image_resets", LeaderState, "on_image", keep_pending_on_image),
    ("image_resets", LeaderState, "alter_answered", adopts_any_answer),
    ("idle_session", LeaderState, "was_there", lambda self, replica, when: None),
    ("idle_session", LeaderState, "was_there", always_there),
    ("new_leader", LeaderState, "_in_sync", lambda self, f: f.end_offset >= self.high_watermark),
    ("new_leader", LeaderState, "knows_its_end", property(lambda self: True)),
    ("follower_flush", FollowerFetch, "_flush_first", flush_skipped),
    (
        "follower_flush",
        FollowerState,
        "high_watermark_received",
        sets("high_watermark", lambda self, hw, end: hw),
    ),
    ("follower_truncate", FollowerFetch, "_common_end", lambda self, epoch, end: end),
    (
        "follower_truncate",
        FollowerFetch,
        "_common_end",
        lambda self, epoch, end: self.state.high_watermark,
    ),
    (
        "follower_truncate",
        FollowerFetch,
        "_common_end",
        lambda self, epoch, end: self._epoch_end(epoch)[1],
    ),
    ("follower_truncate", FollowerState, "truncated", lambda self, end: None),
    ("follower_errors", FollowerFetch, "_refused", lambda self, error, now: self.failed(now)),
    (
        "follower_errors",
        FollowerFetch,
        "failed",
        sets("phase", lambda self, now: follower_module.Phase.READY),
    ),
]


@pytest.mark.parametrize(
    ("script", "owner", "name", "bug"),
    PLANTED,
    ids=[f"{p[0]}-{p[2]}-{i}" for i, p in enumerate(PLANTED)],
)
def test_planted_bug_is_caught(
    script: str, owner: Any, name: str, bug: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(owner, name, bug)

    expected, actual = play(SCRIPTS / f"{script}.txt")

    assert actual != expected
