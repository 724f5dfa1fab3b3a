"""Scenarios of streams groups: commands to a coordinator, as in tests/scripts/groups, and what must
come out.
"""

from raftka.broker.work.long_work import drained
from raftka.coordinator.modern.records import MemberState
from raftka.coordinator.streams.group import StreamsGroup
from raftka.coordinator.streams.reconciliation import reconcile
from raftka.coordinator.streams.records import (
    CURRENT,
    MEMBER,
    Current,
    Said,
)
from raftka.coordinator.streams.tasks import Held, Tasks
from tests.mutants.directed import finds
from tests.scenario import Words
from tests.scripts.groups.stage import GroupStage, stage

AT_ONCE = "streams initial_rebalance_delay_ms=0 assignment_interval_ms=0"
STANDBY = f"{AT_ONCE} standby_replicas=1"


def _play(on: GroupStage, *commands: str) -> list[str]:
    """Return the answer to the last command, without its records."""
    said: list[str] = []
    for command in commands:
        verb, _, rest = command.partition(" ")
        said = [line for line in on.do(verb, Words(rest)) if not line.startswith("record ")]
    return said


@finds
def streams_task_has_two_owners() -> None:
    on = stage()
    _play(on, AT_ONCE, "work a g join")

    assert _play(on, "work b g join") == ["b epoch=3 has -"]
    assert _play(on, "work a g", "work b g") == ["b epoch=3"]


@finds
def streams_process_has_a_task_twice() -> None:
    on = stage()
    _play(on, "topic log partitions=4", STANDBY)
    _play(on, "work a g join topology=state process=p", "work b g join topology=state process=q")
    _play(on, "work a g owned=0_0,0_1", "work a g owned=0_0,0_1", "work b g")
    # c is to have tasks of which b, of the same process, has the copies
    _play(on, "work c g join topology=state process=q", "work a g leave")

    (said,) = _play(on, "work c g")
    tasks = set(said.partition("has ")[2].split(","))
    (others,) = _play(on, "describe-streams g")
    held = others.partition("b@")[2].partition("]")[2].partition("->")[0].split(",")
    assert not {task.strip("+") for task in tasks} & {task.strip("+") for task in held}, others


@finds
def streams_copy_is_forgotten_while_tasks_are_revoked() -> None:
    group = StreamsGroup("g")
    has = Held({"0": {2: 3}}, {"0": (0, 1)})
    group.apply(MEMBER, "b", Said(None, None, "b", "/h", process_id="q"))
    group.apply(CURRENT, "b", Current(3, 2, MemberState.STABLE, has))

    after = drained(reconcile(group, group.members["b"], None, 4, Tasks(active={"0": (0,)})))

    assert after.state is MemberState.UNREVOKED
    assert (after.assigned, after.revoking) == (
        Held(standby={"0": (0,)}),
        Held({"0": {2: 3}}, {"0": (1,)}),
    )


@finds
def streams_zombie_commits() -> None:
    on = stage()
    _play(on, AT_ONCE, "work a g join", "work b g join", "work a g leave", "work b g")

    assert _play(on, "commit a g t-0=5") == ["a committed UNKNOWN_MEMBER_ID"]
    assert _play(on, "commit b g t-0=5 generation=3") == ["b committed STALE_MEMBER_EPOCH"]


@finds
def streams_member_keeps_tasks_that_it_lost() -> None:
    on = stage()
    _play(on, AT_ONCE, "work a g join", "work b g join", "work a g", "work a g owned=0_0,0_1")

    assert _play(on, "work a g epoch=2 owned=0_0,0_1,0_2") == ["a FENCED_MEMBER_EPOCH"]


@finds
def streams_member_revokes_for_ever() -> None:
    on = stage()
    _play(on, AT_ONCE, "work a g join rebalance=5000", "work b g join", "work a g", "at 5")

    assert _play(on, "work b g") == ["b epoch=4 has 0_0,0_1,0_2,0_3"]


@finds
def streams_new_coordinator_forgets_sessions() -> None:
    on = stage()
    _play(on, AT_ONCE, "work a g join", "failover", "at 50")

    assert _play(on, "describe-streams g") == ["describe Empty epoch=3 targets=3"]


@finds
def streams_tasks_are_assigned_without_their_topics() -> None:
    on = stage()

    (said,) = _play(on, AT_ONCE, "work a g join topology=state")
    assert said.startswith("a epoch=2 has - MISSING_INTERNAL_TOPICS")
