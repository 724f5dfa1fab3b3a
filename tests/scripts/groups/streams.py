"""The part of the stage of groups for streams groups. A member's id is the word that says who asks,
its process too unless the script names one.

Tasks read `0_1,1_0`, copies `+0_2`, nothing `-`; of a member's record those that it still has to
give up stand behind `gives`.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from raftka.coordinator.machine import Record
from raftka.coordinator.modern.records import Targets
from raftka.coordinator.records import kind
from raftka.coordinator.streams.commands import (
    DescribedStreamsGroup,
    DescribedStreamsMember,
    DescribeStreamsGroup,
    StreamsBeat,
    StreamsHeartbeat,
)
from raftka.coordinator.streams.group import StreamsGroup
from raftka.coordinator.streams.records import (
    CURRENT,
    GROUP,
    KINDS,
    MEMBER,
    TARGET,
    TARGETS,
    TOPOLOGY,
    Current,
    Endpoint,
    Epoch,
    Said,
    read_key,
    read_value,
)
from raftka.coordinator.streams.tasks import NO_TASKS, Task, Tasks, each_task, task_map
from raftka.coordinator.streams.topology import (
    CopartitionGroup,
    Subtopology,
    TopicInfo,
    Topology,
)
from tests.coordinator.world import view
from tests.scenario import Words
from tests.scripts.groups.shares import ShareStage

NAMES = {
    GROUP: "epoch",
    MEMBER: "worker",
    TARGETS: "targets",
    TARGET: "target",
    CURRENT: "current",
    TOPOLOGY: "topology",
}
WORDS = Subtopology(
    "1",
    (),
    repartition_source_topics=(TopicInfo("words", 0, 0),),
    changelog_topics=(TopicInfo("counts-log", 0, 0, (("cleanup.policy", "compact"),)),),
)
TOPOLOGIES = {
    "plain": Topology(0, (Subtopology("0", ("t",)),)),
    "other": Topology(0, (Subtopology("0", ("u",)),)),
    "newer": Topology(1, (Subtopology("0", ("t",)),)),
    "state": Topology(0, (Subtopology("0", ("t",), changelog_topics=(TopicInfo("log", 0, 0),)),)),
    "count": Topology(0, (Subtopology("0", ("t",), ("words",)), WORDS)),
    "late": Topology(0, (Subtopology("0", ("late",)),)),
    "joined": Topology(
        0, (Subtopology("0", ("t", "u"), copartition_groups=(CopartitionGroup((0, 1)),)),)
    ),
    "loop": Topology(
        0,
        (
            Subtopology("0", (), ("a",), (TopicInfo("b", 0, 0),)),
            Subtopology("1", (), ("b",), (TopicInfo("a", 0, 0),)),
        ),
    ),
    "empty": Topology(0, (Subtopology("0", ()),)),
    "twice": Topology(0, (Subtopology("0", ("t",)), Subtopology("0", ("u",)))),
    "regex": Topology(0, (Subtopology("0", (), source_regex=("t.*",)),)),
    "minus": Topology(-1, (Subtopology("0", ("t",)),)),
    "places": Topology(
        0, (Subtopology("0", ("t",), copartition_groups=(CopartitionGroup((5,)),)),)
    ),
}


class StreamsStage(ShareStage):
    def do_streams(self, words: Words) -> None:
        """`streams standby_replicas=1`: the broker's settings; `streams g ...`: of this group
        alone.
        """
        values: dict[str, Any] = {name: _value(name, words[name]) for name in words.named}
        mine = replace(self.settings.streams, **values)
        if words.bare:
            own = {**self.settings.streams_of, words.bare[0]: mine}
            self.settings = replace(self.settings, streams_of=own)
        else:
            self.settings = replace(self.settings, streams=mine)
        self.machine.configure(self.settings)

    def do_work(self, words: Words) -> Iterator[str]:
        """`work a g join topology=plain process=p`; `work a g owned=0_1,+0_2`; `leave`, `away`;
        `shutdown`.
        """
        who, group = words.bare[:2]
        joins = words.flag("join")
        member_id, epoch = self.own.get((who, group), (who, 0))
        member_id = {"''": ""}.get(words.get("member", member_id), words.get("member", member_id))
        for flag, said in (("join", 0), ("leave", -1), ("away", -2)):
            epoch = said if words.flag(flag) else epoch
        self.aliases.setdefault(member_id, member_id)
        owned = words.get("owned", "-" if joins else "")
        topology = words.get("topology", "plain" if joins else "none")
        offsets = words.get("offsets")
        tags = words.get("tags")
        endpoint = words.get("endpoint")
        command = StreamsHeartbeat(
            group,
            member_id,
            words.number("epoch", epoch),
            words.number("known", 0),
            words.get("instance") or None,
            None,
            who,
            "/1.2.3.4",
            words.number("rebalance", 60_000 if joins else -1),
            TOPOLOGIES.get(topology),
            _owned(owned) if owned else None,
            words.get("process", who) if joins else None,
            Endpoint(endpoint, 1) if endpoint else None,
            tuple(sorted((each, "x") for each in tags.split(","))) if tags else None,
            {_task(each): 100 - place for place, each in enumerate(offsets.split(","))}
            if offsets
            else None,
            words.flag("shutdown"),
        )
        yield from self._decide(who, command)

    def do_describe_streams(self, words: Words) -> Iterator[str]:
        yield from self._decide("describe", DescribeStreamsGroup(words.bare[0]))

    # how it is shown

    def _check_rebuilt(self) -> None:
        super()._check_rebuilt()
        other = self._new_machine()
        for name, group in self.machine.groups.items():
            if isinstance(group, StreamsGroup):
                assert view(self.machine, name) == view(other, name)

    def _record(self, record: Record) -> str:
        if kind(record.key) not in KINDS:
            return super()._record(record)
        what, group, member_id = read_key(record.key)
        words = [NAMES[what], group, *([self._alias(member_id)] if member_id else [])]
        shown = "gone" if record.value is None else _shown(read_value(what, record.value))
        return " ".join([*words, shown])

    def _answer(self, me: tuple[str, str], answer: Any) -> str:
        match answer:
            case StreamsBeat():
                self.own[me] = answer.member_id, max(answer.epoch, 0)
                words = [f"epoch={answer.epoch}"]
                if answer.tasks is not None:
                    words.append(f"has {_tasks(answer.tasks)}")
                words += [each.code.name for each in answer.status]
                if answer.missing:
                    made = [f"{topic.name}={topic.partitions}" for topic in answer.missing]
                    words.append(f"creates {','.join(made)}")
                if answer.endpoint_epoch:
                    words.append(f"endpoints@{answer.endpoint_epoch}")
                for each in answer.endpoints or ():
                    read = [f"{name}:{len(found)}" for name, found in each.active.items()]
                    words.append(f"{each.endpoint.host}({','.join(read)})")
                return " ".join(words)
            case DescribedStreamsGroup():
                words = [
                    answer.state,
                    f"epoch={answer.epoch}",
                    f"targets={answer.assignment_epoch}",
                    *(f"{name}={count}" for name, count in sorted(answer.counts.items())),
                    *(_described(each) for each in answer.members),
                ]
                return " ".join(words)
        return super()._answer(me, answer)


def _described(member: DescribedStreamsMember) -> str:
    instance = f"/{member.instance_id}" if member.instance_id else ""
    has, wants = _tasks(member.assignment), _tasks(member.target)
    return f"{member.member_id}{instance}@{member.epoch}[{member.process_id}]{has}->{wants}"


def _shown(value: Any) -> str:
    match value:
        case Epoch():
            ready = value.validated_topology >= 0
            return f"{value.epoch} ready" if ready else f"{value.epoch} not ready"
        case Targets():
            return str(value.epoch)
        case Said():
            instance = f" instance={value.instance_id}" if value.instance_id else ""
            return f"process={value.process_id}{instance}"
        case Current():
            words = [str(value.epoch), value.state.name.lower(), _tasks(value.assigned.tasks())]
            return " ".join(
                [*words, *([f"gives {_tasks(value.revoking.tasks())}"] if value.revoking else [])]
            )
        case Tasks():
            return _tasks(value)
        case Topology():
            return "+".join(each.id for each in value.subtopologies)
    raise TypeError(value)


def _tasks(tasks: Tasks) -> str:
    active = [f"{name}_{partition}" for name, partition in each_task(tasks.active)]
    copies = [f"+{name}_{partition}" for name, partition in each_task(tasks.standby)]
    return ",".join([*active, *copies]) or "-"


def _task(text: str) -> Task:
    name, _, partition = text.partition("_")
    return name, int(partition)


def _owned(text: str) -> Tasks:
    if text == "-":
        return NO_TASKS
    parts = text.split(",")
    active = [_task(part) for part in parts if not part.startswith("+")]
    return Tasks(task_map(active), task_map([_task(p[1:]) for p in parts if p.startswith("+")]))


def _value(name: str, text: str) -> Any:
    return tuple(text.split(",")) if name == "rack_aware_tags" else int(text)
