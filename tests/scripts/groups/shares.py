"""The part of the stage of groups for share groups. A call to the share coordinator is shown when
its record is taken; `initialized` and `deleted` answer it.

Share partitions read `t-0,t-1`; of the group's record the sets that are not empty are shown:
`begins`, `has`, `deletes`.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from raftka.coordinator.consumer.records import Epoch
from raftka.coordinator.groups import GroupCoordinator
from raftka.coordinator.machine import Outcome, Record
from raftka.coordinator.modern.records import Targets
from raftka.coordinator.records import kind
from raftka.coordinator.share.commands import (
    AlterShareOffsets,
    DeleteShareOffsets,
    DeleteState,
    DescribedShareGroup,
    DescribeShareGroup,
    InitializeState,
    ListSharePartitions,
    Place,
    ShareBeat,
    ShareHeartbeat,
    StateDeleted,
    StateInitialized,
)
from raftka.coordinator.share.records import (
    CURRENT,
    GROUP,
    KINDS,
    MEMBER,
    PARTITIONS,
    TARGET,
    TARGETS,
    Current,
    Partitions,
    Said,
    Topic,
    read_key,
    read_value,
)
from raftka.wire.errors import Code, KafkaError
from tests.coordinator.world import share_view
from tests.scenario import Words
from tests.scripts.groups.consumers import ConsumerStage
from tests.scripts.groups.stage import NOBODY, NOTHING

NAMES = {
    GROUP: "epoch",
    MEMBER: "member",
    TARGETS: "targets",
    TARGET: "target",
    CURRENT: "current",
    PARTITIONS: "partitions",
}
Call = InitializeState | DeleteState


class ShareStage(ConsumerStage):
    def __init__(self) -> None:
        self.calls: list[Call] = []  # without an answer, the oldest first
        self.said: list[str] = []
        super().__init__()

    def do_share(self, words: Words) -> None:
        """`share assignment_interval_ms=0`: the broker's settings; `share g
        session_timeout_ms=50000`: of this group alone.
        """
        values: dict[str, Any] = {name: int(words[name]) for name in words.named}
        if words.bare:
            own = {**self.settings.share_of, words.bare[0]: replace(self.settings.share, **values)}
            self.settings = replace(self.settings, share_of=own)
        else:
            self.settings = replace(self.settings, share=replace(self.settings.share, **values))
        self.machine.configure(self.settings)

    def do_share_beat(self, words: Words) -> Iterator[str]:
        """`share-beat a g join topics=t+u rack=r`; `share-beat a g`; `leave`; `full` says all that
        there is to say.
        """
        who, group = words.bare[:2]
        group, joins = NOBODY.get(group, group), words.flag("join")
        member_id, epoch = self.own.get((who, group), (who, 0))
        member_id = {"''": ""}.get(words.get("member", member_id), words.get("member", member_id))
        for flag, said in (("join", 0), ("leave", -1)):
            epoch = said if words.flag(flag) else epoch
        self.aliases.setdefault(member_id, member_id)
        topics = words.get("topics", "t" if joins or words.flag("full") else "-")
        command = ShareHeartbeat(
            group,
            member_id,
            words.number("epoch", epoch),
            {"": None, "''": ""}.get(words.get("rack"), words.get("rack")),
            words.get("client", who),
            "/1.2.3.4",
            None if topics == "-" else tuple(filter(None, topics.replace("''", "").split("+"))),
        )
        yield from self._decide(who, command)

    def do_describe_shares(self, words: Words) -> Iterator[str]:
        yield from self._decide("describe", DescribeShareGroup(words.bare[0]))

    def do_share_partitions(self, words: Words) -> Iterator[str]:
        yield from self._decide("partitions", ListSharePartitions(words.bare[0]))

    def do_alter_shares(self, words: Words) -> Iterator[str]:
        """`alter-shares g t-0=5 t-1=0`."""
        topics: dict[str, dict[int, int]] = {}
        for name, index in self._partitions(words, ()):
            topics.setdefault(name or "?", {})[int(index)] = int(words[f"{name or '?'}-{index}"])
        group = NOBODY.get(words.bare[0], words.bare[0])
        yield from self._decide("alter", AlterShareOffsets(group, topics))

    def do_delete_shares(self, words: Words) -> Iterator[str]:
        """`delete-shares g t u`."""
        group, *names = words.bare
        command = DeleteShareOffsets(NOBODY.get(group, group), tuple(names))
        yield from self._decide("delete-shares", command)

    # the share coordinator

    def do_initialized(self, words: Words) -> Iterator[str]:
        """`initialized`: the oldest call is done; `initialized t-0 t-1`: but for these; `last`: the
        newest call.
        """
        yield from self._answered(words, InitializeState)

    def do_deleted(self, words: Words) -> Iterator[str]:
        yield from self._answered(words, DeleteState)

    def do_lost(self, words: Words) -> None:
        """`lost`: the oldest call is never answered."""
        self.calls.pop(0)

    def _answered(self, words: Words, kind_: type[Call]) -> Iterator[str]:
        if not self.calls:
            yield "no call"
            return
        call = self.calls.pop(-1 if words.flag("last") else 0)
        assert isinstance(call, kind_), call
        failed = [each for each in words.bare if each != "last"]
        errors: dict[Place, KafkaError] = {
            place: KafkaError(Code.COORDINATOR_NOT_AVAILABLE)
            for place in (call.starts if isinstance(call, InitializeState) else call.places)
            if self._place(place) in failed
        }
        yield from self._decide("-", self._answer_of(call, errors))

    def _answer_of(
        self, call: Call, errors: dict[Place, KafkaError]
    ) -> StateInitialized | StateDeleted:
        made = StateInitialized if isinstance(call, InitializeState) else StateDeleted
        return made(call.group_id, call.number, errors)

    def _place(self, place: Place) -> str:
        return f"{self.topics.topic_name(place[0]) or '?'}-{place[1]}"

    # how it is played

    def _new_machine(self) -> GroupCoordinator:
        machine = GroupCoordinator(self.settings, self._call)
        for replay in self.log:
            replay(machine)
        return machine

    def _call(self, call: Call, failure: KafkaError | None) -> None:
        if failure is not None:
            places = call.starts if isinstance(call, InitializeState) else call.places
            answer = self._answer_of(call, dict.fromkeys(places, failure))
            said = list(self._decide("-", answer))
            self.said += said
            return
        self.calls.append(call)
        if isinstance(call, InitializeState):
            starts = [f"{self._place(place)}={start}" for place, start in call.starts.items()]
            self.said.append(
                f"initialize {call.group_id} epoch={call.state_epoch} {','.join(starts)}"
            )
        else:
            deleted = ",".join(map(self._place, call.places))
            self.said.append(f"delete-state {call.group_id} {deleted}")

    def _outcome(self, outcome: Outcome) -> Iterator[str]:
        made = [ticket for ticket, _ in outcome.replies if callable(ticket)]
        others = [reply for reply in outcome.replies if not callable(reply[0])]
        yield from super()._outcome(replace(outcome, replies=others))
        refused = self.refusing and bool(outcome.records)
        for ticket in made:
            ticket(KafkaError(Code.COORDINATOR_NOT_AVAILABLE) if refused else None)
        said, self.said = self.said, []
        yield from said

    def _check_rebuilt(self) -> None:
        super()._check_rebuilt()
        other = self._new_machine()
        for name in self.machine.shares.groups:
            assert share_view(self.machine, name) == share_view(other, name)

    # how it is shown

    def _record(self, record: Record) -> str:
        if kind(record.key) not in KINDS:
            return super()._record(record)
        what, group, name = read_key(record.key)
        value = read_value(what, record.value) if record.value is not None else None
        shown = "gone" if value is None else self._share_value(value)
        return " ".join(
            ["share", NAMES[what], group, *([self._alias(name)] if name else []), shown]
        )

    def _share_value(self, value: Any) -> str:
        match value:
            case Epoch() | Targets():
                return str(value.epoch)
            case Said():
                rack = [f"rack={value.rack_id}"] if value.rack_id else []
                return " ".join([f"topics={'+'.join(value.topics) or NOTHING}", *rack])
            case Current():
                return f"{value.epoch} {self._partitions_of(value.assigned)}"
            case Partitions():
                sets = (
                    ("begins", self._set(value.initializing)),
                    ("has", self._set(value.initialized)),
                    ("deletes", ",".join(sorted(value.deleting.values()))),
                )
                return " ".join([f"{name}={text}" for name, text in sets if text]) or "-"
        return self._partitions_of(value)

    def _set(self, topics: Mapping[bytes, Any]) -> str:
        return ",".join(
            sorted(f"{topic.name}-{each}" for topic in topics.values() for each in topic.partitions)
        )

    def _answer(self, me: tuple[str, str], answer: Any) -> str:
        match answer:
            case ShareBeat():
                self.own[me] = answer.member_id, max(answer.epoch, 0)
                shown = answer.assignment
                has = [] if shown is None else [f"has {self._partitions_of(shown)}"]
                every = [] if answer.interval_ms in (0, 5000) else [f"every={answer.interval_ms}"]
                return " ".join([f"epoch={answer.epoch}", *has, *every])
            case DescribedShareGroup():
                members = [
                    f"{self._alias(each.member_id)}@{each.epoch}({'+'.join(each.topics)})"
                    f"{self._partitions_of(each.assignment)}"
                    for each in answer.members
                ]
                epochs = f"epoch={answer.epoch} targets={answer.assignment_epoch}"
                return " ".join([answer.state, epochs, *members])
            case dict():
                return self._errors_or_partitions(answer)
        return super()._answer(me, answer)

    def _errors_or_partitions(self, answer: dict[Any, Any]) -> str:
        if any(isinstance(each, Topic) for each in answer.values()):
            return self._set(answer)
        names = [
            f"{each if isinstance(each, str) else f'{each[0]}-{each[1]}'}:{error.code.name}"
            for each, error in answer.items()
        ]
        return " ".join(["done", *sorted(names)])
