"""What is done to a live cluster: each fault has a beginning, an end, and a proof that it bit. Whether it can be done here is tried before.

All in MIX a cluster must survive. What stands in BEYOND promises nobody anything: it shows that the harness finds what is lost.
"""

import errno
import os
import random
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from raftka.chaos.live.proxy import Direction
from raftka.chaos.live.shim import FAILING, LYING
from raftka.chaos.live.stage import Stage
from raftka.wire.messages.partitions import ELECT_LEADERS
from raftka.wire.messages.reassignments import ALTER_PARTITION_REASSIGNMENTS
from raftka.wire.messages.topics import CREATE_TOPICS, DELETE_TOPICS

SKEW_MS = 1_800_000  # less than message.timestamp.after.max.ms: else producers are refused for their times
ROLLED_S = 20.0
CALL_MS = 5_000

Victims = Callable[[Stage, random.Random], list[int]]


class Nemesis:
    """`begin` says what it does; `end` undoes it."""

    name = ""

    def missing(self, stage: Stage) -> str:
        """Why it can not be done here; empty: it can."""
        return ""

    def begin(self, stage: Stage, topic: str, chance: random.Random) -> str:
        raise NotImplementedError

    def bitten(self, stage: Stage) -> bool:
        """Whether it has had an effect since it began."""
        raise NotImplementedError

    def end(self, stage: Stage) -> None:
        raise NotImplementedError

    def settle(self, stage: Stage) -> None:
        """The round is over and all is healed: what `end` could not undo."""


# whom it hits


def one(stage: Stage, chance: random.Random) -> list[int]:
    awake = [node_id for node_id in stage.members if node_id in stage.alive and node_id not in stage.stopped]
    return [chance.choice(awake)] if awake else []


def a_leader(stage: Stage, chance: random.Random) -> list[int]:
    view = stage.view()
    leaders = sorted({each.leader for each in view.partitions if each.leader > 0}) if view is not None else []
    return [chance.choice(leaders)] if leaders else one(stage, chance)


def the_controller(stage: Stage, chance: random.Random) -> list[int]:
    view = stage.view([])
    return [view.controller] if view is not None and view.controller > 0 else one(stage, chance)


def majority(stage: Stage, chance: random.Random) -> list[int]:
    """Of the voters."""
    return sorted(chance.sample(stage.voters, len(stage.voters) // 2 + 1))


def everybody(stage: Stage, chance: random.Random) -> list[int]:
    return list(stage.members)


def named(nodes: Iterable[int]) -> str:
    nodes = list(nodes)
    return ("node " if len(nodes) == 1 else "nodes ") + ", ".join(map(str, nodes)) if nodes else "nobody"


class _Hits(Nemesis):
    def __init__(self, name: str, victims: Victims) -> None:
        self.name = name
        self._choose = victims
        self.victims: list[int] = []


# processes


class Kill(_Hits):
    def begin(self, stage: Stage, topic: str, chance: random.Random) -> str:
        self.victims = self._choose(stage, chance)
        stage.kill(*self.victims)
        return f"SIGKILL to {named(self.victims)}"

    def bitten(self, stage: Stage) -> bool:
        return bool(self.victims) and not set(self.victims) & set(stage.alive)

    def end(self, stage: Stage) -> None:
        for node_id in self.victims:
            stage.start(node_id)


class Pause(_Hits):
    def begin(self, stage: Stage, topic: str, chance: random.Random) -> str:
        self.victims = self._choose(stage, chance)
        for node_id in self.victims:
            stage.pause(node_id)
        return f"SIGSTOP to {named(self.victims)}"

    def bitten(self, stage: Stage) -> bool:
        paused = [stage.nodes[node_id].pid for node_id in self.victims if stage.nodes[node_id].alive]
        return any("\nState:\tT" in Path(f"/proc/{pid}/status").read_text() for pid in paused)

    def end(self, stage: Stage) -> None:
        for node_id in self.victims:
            stage.resume(node_id)


class Roll(Nemesis):
    """Each in turn ends in order and comes back."""

    name = "rolling-restart"

    def __init__(self) -> None:
        self._rolled = 0

    def begin(self, stage: Stage, topic: str, chance: random.Random) -> str:
        self._rolled = 0
        order = chance.sample(stage.members, len(stage.members))
        for node_id in order:
            stage.end(node_id)
            stage.start(node_id)
            stage.wait_for(lambda node_id=node_id: stage.ready(node_id), ROLLED_S)  # type: ignore[misc]
            self._rolled += 1
        return f"{named(order)} restarted in turn"

    def bitten(self, stage: Stage) -> bool:
        return self._rolled == len(stage.members)

    def end(self, stage: Stage) -> None:
        pass


class Throttle(Nemesis):
    """A node gets a tenth of a processor; needs a cgroup that we may write."""

    name = "cpu-throttle"
    PERIOD_US, QUOTA_US = 100_000, 10_000

    def __init__(self) -> None:
        self._group: Path | None = None
        self._home: Path | None = None
        self._victim = 0

    def missing(self, stage: Stage) -> str:
        try:
            group = self._make()
            group.rmdir()
        except OSError as error:
            return f"no cgroup of processors can be made: {error.strerror}"
        return ""

    def _make(self) -> Path:
        old, new = Path("/sys/fs/cgroup/cpu"), Path("/sys/fs/cgroup")
        self._home = old if old.is_dir() else new
        group = self._home / f"raftka-chaos-{os.getpid()}"
        group.mkdir()
        try:
            if old.is_dir():
                (group / "cpu.cfs_period_us").write_text(f"{self.PERIOD_US}")
                (group / "cpu.cfs_quota_us").write_text(f"{self.QUOTA_US}")
            else:
                (group / "cpu.max").write_text(f"{self.QUOTA_US} {self.PERIOD_US}")
        except OSError:
            group.rmdir()
            raise
        return group

    def begin(self, stage: Stage, topic: str, chance: random.Random) -> str:
        self._victim = (one(stage, chance) or [0])[0]
        self._group = self._make()
        if self._victim:
            (self._group / "cgroup.procs").write_text(f"{stage.nodes[self._victim].pid}")
        return f"node {self._victim} gets a tenth of a processor"

    def bitten(self, stage: Stage) -> bool:
        assert self._group is not None
        words = (self._group / "cpu.stat").read_text().split()
        return int(dict(zip(words[::2], words[1::2], strict=True)).get("nr_throttled", "0")) > 0

    def end(self, stage: Stage) -> None:
        assert self._group is not None
        assert self._home is not None
        for pid in (self._group / "cgroup.procs").read_text().split():
            (self._home / "cgroup.procs").write_text(pid)
        self._group.rmdir()


# the network

Cuts = Callable[[Stage, random.Random], tuple[str, list[Direction]]]


def split(stage: Stage, chance: random.Random) -> tuple[str, list[Direction]]:
    nodes = chance.sample(stage.members, len(stage.members))
    some, others = nodes[: len(nodes) // 2], nodes[len(nodes) // 2 :]
    return f"{named(some)} | {named(others)}", stage.between(some, others)


def isolated(choose: Victims) -> Cuts:
    def cuts(stage: Stage, chance: random.Random) -> tuple[str, list[Direction]]:
        victims = choose(stage, chance)
        return f"{named(victims)} | the others", stage.between(victims, [each for each in stage.members if each not in victims])

    return cuts


def one_way(stage: Stage, chance: random.Random) -> tuple[str, list[Direction]]:
    source, target = chance.sample(stage.members, 2)
    return f"node {source} is not heard by node {target}", [(source, target)]


def deaf(stage: Stage, chance: random.Random) -> tuple[str, list[Direction]]:
    victim = chance.choice(stage.members)
    return f"node {victim} hears nobody", [(each, victim) for each in stage.members if each != victim]


def ring(stage: Stage, chance: random.Random) -> tuple[str, list[Direction]]:
    """Each still hears a majority, no two the same one; of three nodes one pair is parted."""
    nodes = chance.sample(stage.members, len(stage.members))
    apart = [(a, b) for i, a in enumerate(nodes) for j, b in enumerate(nodes) if i < j and 1 < j - i < len(nodes) - 1] or [(nodes[0], nodes[1])]
    return "apart: " + ", ".join(f"{a} | {b}" for a, b in apart), [each for a, b in apart for each in ((a, b), (b, a))]


class Cut(Nemesis):
    def __init__(self, name: str, cuts: Cuts) -> None:
        self.name = name
        self._cuts = cuts
        self._directions: list[Direction] = []
        self._before: Mapping[Direction, int] = {}

    def begin(self, stage: Stage, topic: str, chance: random.Random) -> str:
        said, self._directions = self._cuts(stage, chance)
        self._before = stage.proxy.held()
        if self._directions:
            stage.proxy.cut(*self._directions)
        return said

    def bitten(self, stage: Stage) -> bool:
        held = stage.proxy.held()
        return any(held.get(each, 0) > self._before.get(each, 0) for each in self._directions)

    def end(self, stage: Stage) -> None:
        if self._directions:
            stage.proxy.heal(*self._directions)


class SlowLinks(Cut):
    def __init__(self) -> None:
        super().__init__("slow-links", isolated(one))

    def begin(self, stage: Stage, topic: str, chance: random.Random) -> str:
        said, self._directions = self._cuts(stage, chance)
        self._before = stage.proxy.held()
        delay_s = chance.choice((0.02, 0.1, 0.5))
        if self._directions:
            stage.proxy.slow(delay_s, *self._directions)
        return f"{said}, {1000 * delay_s:g} ms each way"


# disks and clocks


class Disk(_Hits):
    """`fields` of the shim, until it ends; then the node is started anew if it has given up."""

    def __init__(self, name: str, victims: Victims, counter: str, said: str, fields: Callable[[random.Random], dict[str, int]]) -> None:
        super().__init__(name, victims)
        self._counter, self._said, self._fields = counter, said, fields
        self._before: dict[int, int] = {}

    def missing(self, stage: Stage) -> str:
        return stage.no_shim

    def begin(self, stage: Stage, topic: str, chance: random.Random) -> str:
        self.victims = self._choose(stage, chance)
        self._before = {node_id: stage.shims[node_id].count(self._counter) for node_id in self.victims}
        fields = self._fields(chance)
        for node_id in self.victims:
            stage.expected.add(node_id)
            stage.shims[node_id].tell(**fields)
        return f"{self._said} of {named(self.victims)}" + "".join(f", {name} {value}" for name, value in fields.items() if value > 99)

    def bitten(self, stage: Stage) -> bool:
        return any(stage.shims[node_id].count(self._counter) > before for node_id, before in self._before.items())

    def end(self, stage: Stage) -> None:
        for node_id in self.victims:
            stage.shims[node_id].heal()
            stage.watch()
            stage.kill(node_id)  # where a log could not be written the broker has withdrawn
            stage.start(node_id)


class Slow(Disk):
    def end(self, stage: Stage) -> None:
        for node_id in self.victims:
            stage.shims[node_id].heal()
            stage.expected.discard(node_id)


class Clock(Slow):
    """Jumps there, and back."""


class PowerLoss(_Hits):
    """All at once; what no flush has brought to the disk is gone."""

    def __init__(self, name: str, victims: Victims) -> None:
        super().__init__(name, victims)
        self.lost = 0

    def missing(self, stage: Stage) -> str:
        return stage.no_shim

    def begin(self, stage: Stage, topic: str, chance: random.Random) -> str:
        self.victims = self._choose(stage, chance)
        stage.kill(*self.victims)
        self.lost = sum(stage.shims[node_id].lose_power(chance) for node_id in self.victims)
        return f"no power for {named(self.victims)}, {self.lost:,} bytes that were not flushed are gone"

    def bitten(self, stage: Stage) -> bool:
        return bool(self.victims) and not set(self.victims) & set(stage.alive)

    def end(self, stage: Stage) -> None:
        for node_id in self.victims:
            stage.start(node_id)


class LyingDisks(PowerLoss):
    """Flushes that say they are done and are not, until the power fails: what was acknowledged meanwhile is gone."""

    def begin(self, stage: Stage, topic: str, chance: random.Random) -> str:
        self.victims = self._choose(stage, chance)
        self._chance = chance
        for node_id in self.victims:
            stage.shims[node_id].tell(flush=LYING)
        return f"the disks of {named(self.victims)} lie, then there is no power"

    def bitten(self, stage: Stage) -> bool:
        return all(stage.shims[node_id].count("flushes_lied") > 0 for node_id in self.victims)

    def end(self, stage: Stage) -> None:
        stage.kill(*self.victims)
        self.lost = sum(stage.shims[node_id].lose_power(self._chance) for node_id in self.victims)
        for node_id in self.victims:
            stage.shims[node_id].heal()
            stage.start(node_id)


# what the cluster consists of


class Membership(Nemesis):
    """A broker more comes, takes over replicas, gives them back and goes."""

    name = "membership"

    def __init__(self) -> None:
        self._topic = ""
        self._was: dict[int, list[int]] = {}  # replicas by partition

    def begin(self, stage: Stage, topic: str, chance: random.Random) -> str:
        self._topic, self._was = topic, {}
        stage.start(stage.spare)
        stage.wait_for(lambda: stage.ready(stage.spare), ROLLED_S)
        view = stage.view([topic])
        if view is None or stage.spare not in view.brokers:
            return f"node {stage.spare} came, nobody saw it"
        for each in chance.sample(view.of(topic), min(2, len(view.of(topic)))):
            self._was[each.partition] = list(each.replicas)
            leaves = chance.randrange(len(each.replicas))
            self._move(stage, each.partition, [stage.spare if i == leaves else node_id for i, node_id in enumerate(each.replicas)])
        return f"node {stage.spare} came and takes over replicas of {topic} {sorted(self._was)}"

    def _move(self, stage: Stage, partition: int, replicas: list[int]) -> None:
        request = ALTER_PARTITION_REASSIGNMENTS.request
        rows = [request.topics(name=self._topic, partitions=[request.topics.partitions(partition_index=partition, replicas=replicas)])]
        stage.ask_anybody(ALTER_PARTITION_REASSIGNMENTS, request(topics=rows, timeout_ms=CALL_MS))

    def bitten(self, stage: Stage) -> bool:
        view = stage.view([self._topic])
        return view is not None and any(stage.spare in each.isr for each in view.of(self._topic))

    def end(self, stage: Stage) -> None:
        for partition, replicas in self._was.items():
            self._move(stage, partition, replicas)
        stage.wait_for(lambda: not self._there(stage), ROLLED_S)
        stage.end(stage.spare)

    def settle(self, stage: Stage) -> None:
        """It was in the middle of a move when nobody listened."""
        if not self._there(stage):
            return
        stage.start(stage.spare)
        for partition, replicas in self._was.items():
            self._move(stage, partition, replicas)
        stage.wait_for(lambda: not self._there(stage), ROLLED_S)
        stage.end(stage.spare)

    def _there(self, stage: Stage) -> bool:
        view = stage.view([self._topic]) if self._topic else None
        return view is not None and any(stage.spare in each.replicas for each in view.of(self._topic))


class Topics(Nemesis):
    """One is made, and deleted again."""

    name = "topics"
    TOPIC = "comes-and-goes"

    def begin(self, stage: Stage, topic: str, chance: random.Random) -> str:
        request, partitions = CREATE_TOPICS.request, chance.randint(1, 20)
        row = request.topics(name=self.TOPIC, num_partitions=partitions, replication_factor=chance.choice((1, 3)))
        stage.ask_anybody(CREATE_TOPICS, request(topics=[row], timeout_ms=CALL_MS))
        return f"a topic of {partitions} partitions is made, and deleted"

    def bitten(self, stage: Stage) -> bool:
        view = stage.view([self.TOPIC])
        return view is not None and bool(view.of(self.TOPIC))

    def end(self, stage: Stage) -> None:
        stage.ask_anybody(DELETE_TOPICS, DELETE_TOPICS.request(topic_names=[self.TOPIC], timeout_ms=CALL_MS), version=5)


class Elections(Nemesis):
    """Leaders go back to who should lead."""

    name = "elections"

    def __init__(self) -> None:
        self._asked = False

    def begin(self, stage: Stage, topic: str, chance: random.Random) -> str:
        request = ELECT_LEADERS.request
        answer = stage.ask_anybody(ELECT_LEADERS, request(election_type=0, topic_partitions=None, timeout_ms=CALL_MS))
        self._asked = answer is not None
        return "preferred leaders are elected"

    def bitten(self, stage: Stage) -> bool:
        return self._asked

    def end(self, stage: Stage) -> None:
        pass


def _slow(chance: random.Random) -> dict[str, int]:
    return {"flush_delay_us": chance.choice((20_000, 200_000, 1_000_000)), "write_delay_us": chance.choice((0, 0, 5_000))}


def _skew(chance: random.Random) -> dict[str, int]:
    return {"wall_offset_ms": chance.choice((-1, 1)) * chance.choice((200, 5_000, 60_000, SKEW_MS))}


def mix() -> list[Nemesis]:
    return [
        Kill("kill-one", one),
        Kill("kill-leader", a_leader),
        Kill("kill-controller", the_controller),
        Kill("kill-majority", majority),
        Kill("kill-all", everybody),
        Pause("pause-one", one),
        Pause("pause-leader", a_leader),
        Pause("pause-controller", the_controller),
        Roll(),
        Throttle(),
        Cut("partition", split),
        Cut("isolate-leader", isolated(a_leader)),
        Cut("isolate-controller", isolated(the_controller)),
        Cut("one-way", one_way),
        Cut("deaf", deaf),
        Cut("ring", ring),
        SlowLinks(),
        Slow("slow-disk", one, "flushes_slow", "slow disk", _slow),
        Disk("full-disk", one, "writes_refused", "full disk", lambda chance: {"write_error": errno.ENOSPC}),
        Disk("failing-flush", a_leader, "flushes_failed", "failing flushes", lambda chance: {"flush": FAILING}),
        PowerLoss("power-loss-one", a_leader),
        PowerLoss("power-loss-all", everybody),
        Clock("clock-skew", one, "clock_skewed", "wrong clock", _skew),
        Membership(),
        Topics(),
        Elections(),
    ]


def beyond() -> list[Nemesis]:
    return [LyingDisks("lying-disks", everybody)]


def chosen(names: Iterable[str]) -> list[Nemesis]:
    """`mix` is all of MIX. Raises KeyError for a name that there is none of."""
    known = {each.name: each for each in (*mix(), *beyond())}
    wanted = [known[name] for name in names if name != "mix"]
    return [*(mix() if "mix" in names else []), *wanted]


MIX = tuple(each.name for each in mix())
BEYOND = tuple(each.name for each in beyond())
