"""The part of the stage of groups for consumers of the new protocol. A member's id is the word that
says who asks, unless it asks for one (`new`).

Partitions read `t-0,t-1`, nothing `-`; of a member's record those that it still has to give up
stand behind `gives`.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from raftka.coordinator.consumer.commands import (
    ConsumerBeat,
    ConsumerHeartbeat,
    DescribeConsumerGroup,
    DescribedConsumer,
    DescribedConsumerGroup,
    Target,
)
from raftka.coordinator.consumer.group import ConsumerGroup, without_epochs
from raftka.coordinator.consumer.records import (
    CURRENT,
    GROUP,
    KINDS,
    MEMBER,
    REGEX,
    TARGET,
    TARGETS,
    Current,
    Epoch,
    Resolved,
    Said,
    read_key,
    read_value,
)
from raftka.coordinator.machine import Record
from raftka.coordinator.modern.records import Targets
from raftka.coordinator.protocol import read_assignment
from raftka.coordinator.records import kind
from tests.coordinator.world import view
from tests.scenario import Words
from tests.scripts.groups.stage import NOBODY, NOTHING, GroupStage

NAMES = {
    GROUP: "epoch",
    MEMBER: "member",
    TARGETS: "targets",
    TARGET: "target",
    CURRENT: "current",
    REGEX: "regex",
}
USUAL_MS = 5000


class ConsumerStage(GroupStage):
    def do_consumer(self, words: Words) -> None:
        """`consumer assignment_interval_ms=0`: the broker's settings; `consumer g
        session_timeout_ms=50000`: of this group alone.
        """
        values: dict[str, Any] = {name: _value(name, words[name]) for name in words.named}
        if words.bare:
            own = {
                **self.settings.consumer_of,
                words.bare[0]: replace(self.settings.consumer, **values),
            }
            self.settings = replace(self.settings, consumer_of=own)
        else:
            self.settings = replace(
                self.settings, consumer=replace(self.settings.consumer, **values)
            )
        self.machine.configure(self.settings)

    def do_beat(self, words: Words) -> Iterator[str]:
        """`beat a g join topics=t+u regex=t.* instance=i`; `beat a g owned=t-0`; `leave`, `away`;
        `full` says all that there is to say; `v0`.
        """
        who, group = words.bare[:2]
        group, joins = NOBODY.get(group, group), words.flag("join")
        member_id, epoch = self.own.get((who, group), ("" if words.flag("new") else who, 0))
        member_id = {"''": ""}.get(words.get("member", member_id), words.get("member", member_id))
        for flag, said in (("join", 0), ("leave", -1), ("away", -2)):
            epoch = said if words.flag(flag) else epoch
        whole = joins or words.flag("full")
        self.aliases.setdefault(member_id, member_id)
        topics = words.get("topics", "-" if not whole or "regex" in words else "t")
        owned = words.get("owned", "''" if joins else "-")
        command = ConsumerHeartbeat(
            group,
            member_id,
            words.number("epoch", epoch),
            {"": None, "''": ""}.get(words.get("instance"), words.get("instance")),
            {"": None, "''": ""}.get(words.get("rack"), words.get("rack")),
            words.get("client", who),
            "/1.2.3.4",
            words.number("rebalance", 60_000 if whole else -1),
            None if topics == "-" else tuple(filter(None, topics.replace("''", "").split("+"))),
            {"": None, "''": ""}.get(words.get("regex"), words.get("regex")),
            words.get("assignor") or None,
            None if owned == "-" else self._owned(owned),
            not words.flag("v0"),
        )
        yield from self._decide(who, command)

    def do_describe_consumers(self, words: Words) -> Iterator[str]:
        yield from self._decide("describe", DescribeConsumerGroup(words.bare[0]))

    # how it is shown

    def _check_rebuilt(self) -> None:
        super()._check_rebuilt()
        other = self._new_machine()
        for name, group in self.machine.groups.items():
            if isinstance(group, ConsumerGroup):
                assert view(self.machine, name) == view(other, name)

    def _record(self, record: Record) -> str:
        if kind(record.key) not in KINDS:
            return super()._record(record)
        what, group, name = read_key(record.key)
        words = [
            NAMES[what],
            group,
            *([self._alias(name) if what != REGEX else name] if name else []),
        ]
        return " ".join(
            [
                *words,
                "gone" if record.value is None else self._value(read_value(what, record.value)),
            ]
        )

    def _value(self, value: Any) -> str:
        match value:
            case Epoch() | Targets():
                return str(value.epoch)
            case Said():
                optional = {
                    "instance": value.instance_id,
                    "regex": value.regex,
                    "assignor": value.assignor,
                    "rack": value.rack_id,
                }
                words = [
                    f"topics={'+'.join(value.topics) or NOTHING}",
                    *(f"{name}={text}" for name, text in optional.items() if text),
                ]
                return " ".join([*words, *(["classic"] if value.classic is not None else [])])
            case Current():
                words = [
                    str(value.epoch),
                    value.state.name.lower(),
                    self._partitions_of(without_epochs(value.assigned)),
                ]
                return " ".join(
                    [
                        *words,
                        *(
                            [f"gives {self._partitions_of(without_epochs(value.revoking))}"]
                            if value.revoking
                            else []
                        ),
                    ]
                )
            case Resolved():
                return ",".join(value.topics) or NOTHING
            case dict():
                return self._partitions_of(value)
        raise TypeError(value)

    def _answer(self, me: tuple[str, str], answer: Any) -> str:
        match answer:
            case ConsumerBeat():
                self.own[me] = answer.member_id, max(answer.epoch, 0)
                assignment = (
                    []
                    if answer.assignment is None
                    else [f"has {self._partitions_of(answer.assignment)}"]
                )
                every = (
                    [] if answer.interval_ms in (0, USUAL_MS) else [f"every={answer.interval_ms}"]
                )
                return " ".join([f"epoch={answer.epoch}", *assignment, *every])
            case DescribedConsumerGroup():
                words = [
                    answer.state,
                    f"epoch={answer.epoch}",
                    f"targets={answer.assignment_epoch}",
                    answer.assignor,
                ]
                return " ".join(
                    [*words, *(self._described_consumer(each) for each in answer.members)]
                )
        return super()._answer(me, answer)

    def _described_consumer(self, member: DescribedConsumer) -> str:
        instance = f"/{member.instance_id}" if member.instance_id else ""
        has, wants = self._partitions_of(member.assignment), self._partitions_of(member.target)
        kind_ = "~" if member.is_classic else ""
        name = f"{kind_}{self._alias(member.member_id)}{instance}@{member.epoch}"
        return f"{name}({'+'.join(member.topics)}{member.regex}){has}->{wants}"

    def _shown(self, assignment: bytes) -> str:
        """Show the assignment of a classic member of a consumer group; elsewhere scripts have words
        for assignments.
        """
        if assignment[:2] not in (b"\0\0", b"\0\1", b"\0\2", b"\0\3"):
            return super()._shown(assignment)
        return (
            ",".join(
                f"{name}-{each}"
                for name, partitions in sorted(read_assignment(assignment).partitions.items())
                for each in partitions
            )
            or "-"
        )

    def _partitions_of(self, target: Target) -> str:
        names = {topic_id: self.topics.topic_name(topic_id) or "?" for topic_id in target}
        return (
            ",".join(
                f"{names[topic_id]}-{each}"
                for topic_id in sorted(target, key=names.__getitem__)
                for each in target[topic_id]
            )
            or "-"
        )

    def _owned(self, text: str) -> dict[bytes, frozenset[int]]:
        found: dict[bytes, frozenset[int]] = {}
        for each in filter(None, text.replace("''", "").split(",")):
            name, _, index = each.rpartition("-")
            topic_id = self.topics.topic_id(name) or b"?" * 16
            found[topic_id] = found.get(topic_id, frozenset()) | {int(index)}
        return found


def _value(name: str, text: str) -> Any:
    if name == "assignors":
        return tuple(text.split(","))
    return text == "yes" if name in ("upgrades", "downgrades") else int(text)
