"""The group coordinator on a stage: each command is decided, what it records is shown, encoded, and
replayed, as the shell around it would.

A word says who asks; it is the client's id and stands for the reply. Who has been given a member id
or a generation comes with it from then on, unless the script says otherwise (`member=new`,
`member=m1`, `generation=7`). Member ids are shown as m1, m2 ... in the order in which they came up,
metadata of consumers as their topics. After every record a second coordinator is made from the log:
it must see what the first one sees.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from random import Random
from typing import Any

from raftka.coordinator.classic.group import State, topics_of
from raftka.coordinator.commands import (
    CommitOffsets,
    CommitPartition,
    CommitTopic,
    DeleteGroup,
    DeleteOffsets,
    DescribedGroup,
    DescribeGroup,
    FetchedPartition,
    FetchOffsets,
    FetchTopic,
    GroupSettings,
    GroupsListed,
    Heartbeat,
    Join,
    Joined,
    JoinRefused,
    Leave,
    LeavingMember,
    Left,
    ListGroups,
    MemberIdRequired,
    OffsetsCommitted,
    OffsetsDeleted,
    OffsetsFetched,
    Protocol,
    Sync,
    Synced,
)
from raftka.coordinator.groups import GroupCoordinator
from raftka.coordinator.machine import Context, Outcome, Record
from raftka.coordinator.records import (
    GROUP_METADATA_KEY,
    kind,
    read_group_key,
    read_group_value,
    read_offset_key,
    read_offset_value,
)
from raftka.wire.errors import Code, KafkaError
from tests.coordinator.world import FakeTopics, outcome_of, subscription, view
from tests.scenario import Words

NOBODY = {"''": "", "-": ""}
CODE_ERRORS = (Left, OffsetsCommitted, OffsetsDeleted)


def stage() -> "GroupStage":
    from tests.scripts.groups.streams import StreamsStage  # which knows this one

    return StreamsStage()


class GroupStage:
    def __init__(self) -> None:
        self.settings = GroupSettings()
        self.random = Random(1)
        self.now = 0.0
        self.wall_ms = 1_000_000
        self.topics = FakeTopics({"t": 4, "u": 2})
        self.deleted: list[tuple[bytes, str]] = []  # nobody has told the coordinator yet
        # what each batch does to a coordinator that reads it
        self.log: list[Callable[[GroupCoordinator], None]] = []
        self.machine = self._new_machine()
        self.aliases: dict[str, str] = {}  # by member id
        # by who asks in which group: member id and generation
        self.own: dict[tuple[str, str], tuple[str, int]] = {}
        self.waiting: dict[str, str] = {}  # who has had no answer, and of which group
        self.refusing = False

    def do(self, verb: str, words: Words) -> Iterable[str]:
        play: Callable[[Words], Iterable[str] | None] = getattr(
            self, f"do_{verb.replace('-', '_')}"
        )
        return play(words) or ()

    # the world

    def do_settings(self, words: Words) -> None:
        """`settings max_size=2 initial_rebalance_delay_ms=0`."""
        settings: dict[str, Any] = {name: int(words[name]) for name in words.named}
        self.settings = replace(self.settings, **settings)
        self.machine.configure(self.settings)

    def do_at(self, words: Words) -> Iterator[str]:
        """`at 2.5`: the shell's timer goes off whenever the machine wants, until then."""
        until = float(words.bare[0])
        while (when := max(self.machine.deadline(), self.now)) <= until:
            self._move(when)
            yield from self._outcome(outcome_of(self.machine.tick(self._context())))
        self._move(until)

    def do_topic(self, words: Words) -> Iterator[str]:
        """`topic t partitions=4`: it is made anew, under another id; `topic t gone`; `topic t
        grows=6`: it gets partitions.

        `untold`: the coordinator hears of it by `told`.
        """
        name = words.bare[0]
        old = self.topics.topic_id(name)
        if words.flag("gone"):
            self.topics.delete(name)
        elif "grows" in words.named:
            self.topics.grow(name, words.number("grows", 0), self.now)
            old = None
        else:
            self.topics.create(name, words.number("partitions", 4))
        if old is not None:
            self.deleted.append((old, name))
        if not words.flag("untold"):
            yield from self.do_told(words)

    def do_told(self, words: Words) -> Iterator[str]:
        deleted, self.deleted = self.deleted, []
        yield from self._outcome(outcome_of(self.machine.on_image(deleted, self._context())))

    def do_asleep(self, words: Words) -> None:
        """`asleep 10`: the timer should have gone off, but the process stands still until then."""
        self._move(float(words.bare[0]))

    def do_failover(self, words: Words) -> Iterator[str]:
        """Another coordinator: who waits hears NOT_COORDINATOR, and what is not in the log is
        gone.
        """
        for who in self.waiting:
            yield f"{who} NOT_COORDINATOR"
        self.waiting = {}
        self.machine = self._new_machine()
        yield from self._outcome(self.machine.loaded(self._context()))

    def do_refuse(self, words: Words) -> None:
        """`refuse`: no record is taken, until `refuse no`."""
        self.refusing = not words.flag("no")

    def do_forget(self, words: Words) -> None:
        for who in words.bare:
            self.machine.client_gone(who)

    # members

    def do_join(self, words: Words) -> Iterator[str]:
        """`join a g v9 instance=i session=6000 rebalance=60000 type=consumer
        protocols=range:t+u,sticky:t owned=t-0`.
        """
        who, group = words.bare[:2]
        version = next((int(word[1:]) for word in words.bare if re.fullmatch(r"v\d", word)), 9)
        kind_ = words.get("type", "consumer")
        protocols = tuple(
            [
                _protocol(each, kind_, words.get("owned"))
                for each in words.get("protocols", "range:t").split(",")
                if each
            ]
        )
        member_id = self._member(who, words)
        times = words.number("session", 10_000), words.number("rebalance", 60_000)
        identity = (
            NOBODY.get(group, group),
            member_id,
            words.get("instance") or None,
            words.get("client", who),
            "/1.2.3.4",
        )
        yield from self._decide(
            who,
            Join(
                *identity,
                *times,
                "" if kind_ == "none" else kind_,
                protocols,
                version >= 4,
                version >= 9,
            ),
        )

    def do_sync(self, words: Words) -> Iterator[str]:
        """`sync a g m1=x m2=y`: the leader's assignments; `type=`, `protocol=`: `none` is null."""
        who, group = words.bare[:2]
        said = [
            words.get(name, default)
            for name, default in (("type", "consumer"), ("protocol", "range"))
        ]
        named = {
            name: words[name]
            for name in words.named
            if name not in ("type", "protocol", "generation", "member", "instance")
        }
        assignments = tuple([(self._real(name), value.encode()) for name, value in named.items()])
        types = [None if each == "none" else each for each in said]
        asked = (
            NOBODY.get(group, group),
            self._generation(who, words),
            self._member(who, words),
            words.get("instance") or None,
        )
        yield from self._decide(
            who, Sync(*asked, types[0], types[1], assignments, not words.flag("v4"))
        )

    def do_heartbeat(self, words: Words) -> Iterator[str]:
        who, group = words.bare[:2]
        asked = (
            NOBODY.get(group, group),
            self._generation(who, words),
            self._member(who, words),
            words.get("instance") or None,
        )
        yield from self._decide(who, Heartbeat(*asked))

    def do_leave(self, words: Words) -> Iterator[str]:
        """`leave a g m1 /i1 m2/i2`: member, instance; without either, its own id; `nobody`: an
        empty list.
        """
        who, group, *leaving = words.bare
        if leaving == ["nobody"]:
            members: tuple[LeavingMember, ...] = ()
        elif leaving:
            members = tuple(
                [
                    LeavingMember(
                        self._real(each.partition("/")[0]), each.partition("/")[2] or None
                    )
                    for each in leaving
                ]
            )
        else:
            members = (LeavingMember(self._member(who, words), words.get("instance") or None),)
        yield from self._decide(who, Leave(NOBODY.get(group, group), members))

    # offsets

    def do_commit(self, words: Words) -> Iterator[str]:
        """`commit a g t-0=5 t-1=6@3:note ?-0=1`: offset, leader epoch, metadata; `simple`: of no
        member; `producer=7`: in its transaction.
        """
        who, group = words.bare[:2]
        known = ("generation", "member", "instance", "retention", "producer")
        topics = [
            CommitTopic(name, (_commit(int(index), words[f"{name or '?'}-{index}"]),))
            for name, index in self._partitions(words, known)
        ]
        generation = -1 if words.flag("simple") else self._generation(who, words)
        member_id = "" if words.flag("simple") else self._member(who, words)
        asked = (
            NOBODY.get(group, group),
            generation,
            member_id,
            words.get("instance") or None,
            tuple(topics),
        )
        producer = (words.number("producer", -1), 0) if "producer" in words else None
        yield from self._decide(
            who,
            CommitOffsets(*asked, words.number("retention", -1), not words.flag("v8"), producer),
        )

    def do_marker(self, words: Words) -> None:
        """`marker 7 commit`, `marker 7 abort`: the transaction of that producer is over."""
        producer_id, commit = int(words.bare[0]), words.bare[1] == "commit"
        self._append(lambda machine: machine.end_transaction(producer_id, commit=commit))
        self._check_rebuilt()

    def do_fetch(self, words: Words) -> Iterator[str]:
        """`fetch a g t-0 ?-1`; without a partition: all; `member=a epoch=2`: of a consumer group;
        `stable`: what no transaction may change.
        """
        stable = words.flag("stable")
        who, group, *names = [each for each in words.bare if each != "stable"]
        asked = [each.rpartition("-") for each in names]
        topics = tuple(
            [FetchTopic(None if name == "?" else name, (int(index),)) for name, _, index in asked]
        )
        member = (
            (words.get("member"), words.number("epoch", -1)) if "member" in words else (None, -1)
        )
        yield from self._decide(
            who, FetchOffsets(NOBODY.get(group, group), topics or None, stable, *member)
        )

    def do_delete_offsets(self, words: Words) -> Iterator[str]:
        who, group, *names = words.bare
        topics = tuple(
            [(name, (int(index),)) for name, _, index in (each.rpartition("-") for each in names)]
        )
        yield from self._decide(who, DeleteOffsets(NOBODY.get(group, group), topics))

    # groups

    def do_describe(self, words: Words) -> Iterator[str]:
        yield from self._decide("describe", DescribeGroup(NOBODY.get(words.bare[0], words.bare[0])))

    def do_list(self, words: Words) -> Iterator[str]:
        """`list states=stable,EMPTY types=Classic`."""
        states, types = (
            tuple(filter(None, words.get(name).split(","))) for name in ("states", "types")
        )
        yield from self._decide("list", ListGroups(states, types))

    def do_delete(self, words: Words) -> Iterator[str]:
        yield from self._decide("delete", DeleteGroup(NOBODY.get(words.bare[0], words.bare[0])))

    # how it is played

    def _new_machine(self) -> GroupCoordinator:
        machine = GroupCoordinator(self.settings)
        for replay in self.log:
            replay(machine)
        return machine

    def _append(self, replay: Callable[[GroupCoordinator], None]) -> None:
        self.log.append(replay)
        replay(self.machine)

    def _move(self, when: float) -> None:
        self.wall_ms += round((when - self.now) * 1000)
        self.now = when

    def _context(self) -> Context:
        return Context(self.now, self.wall_ms, self.random, self.topics)

    def _decide(self, who: str, command: Any) -> Iterator[str]:
        name, number = who, 2
        while name in self.waiting:  # it asks again before it was answered
            name, number = f"{who}#{number}", number + 1
        self.waiting[name] = getattr(command, "group_id", "")
        try:
            outcome = outcome_of(self.machine.decide(command, name, self._context()))
        except KafkaError as error:
            outcome = Outcome((), ((name, error),))
        yield from self._outcome(outcome)

    def _outcome(self, outcome: Outcome) -> Iterator[str]:
        refused = self.refusing and bool(outcome.records)
        if not refused:
            for record in outcome.records:
                pending = "" if outcome.producer is None else f"of {outcome.producer[0]} "
                yield f"record {pending}{self._record(record)}"
                self._append(_replaying(record, outcome.producer))
            if outcome.records:
                self._check_rebuilt()
        for ticket, answer in outcome.replies:
            who = str(ticket)
            me = who.partition("#")[0], self.waiting.pop(who)
            yield f"{who} {'COORDINATOR_NOT_AVAILABLE' if refused else self._answer(me, answer)}"

    def _check_rebuilt(self) -> None:
        other = self._new_machine()
        settled = {
            name
            for name, group in self.machine.groups.items()
            if group.state in (State.STABLE, State.EMPTY) and group.in_log
        }
        for name in settled:
            assert view(self.machine, name) == view(other, name)

    # how it is shown

    def _record(self, record: Record) -> str:
        if kind(record.key) != GROUP_METADATA_KEY:
            group, topic, partition = read_offset_key(record.key)
            what = f"offset {group or NOTHING} {topic}-{partition}"
            return (
                f"{what} gone"
                if record.value is None
                else f"{what} {self._committed(record.value)}"
            )
        what = f"group {read_group_key(record.key) or NOTHING}"
        if record.value is None:
            return f"{what} gone"
        group_ = read_group_value(record.value)
        members = [
            f"{self._alias(each.member_id)}={self._shown(each.assignment)}"
            for each in group_.members
        ]
        protocol = f"{group_.protocol_type or '-'}/{group_.protocol_name or '-'}"
        leads = [f"leader={self._alias(group_.leader)}"] if group_.leader else []
        return " ".join([what, f"generation={group_.generation_id}", protocol, *leads, *members])

    def _committed(self, value: bytes) -> str:
        found = read_offset_value(value)
        expires = (
            f" expires={found.expire_timestamp_ms - found.commit_timestamp_ms}"
            if found.expire_timestamp_ms >= 0
            else ""
        )
        return (
            _offset(FetchedPartition(0, found.offset, found.leader_epoch, found.metadata)) + expires
        )

    def _answer(self, me: tuple[str, str], answer: Any) -> str:
        match answer:
            case None:
                return "ok"
            case KafkaError():
                return f"{answer.code.name}"
            case JoinRefused(code):
                return f"{code.name} without id"
            case MemberIdRequired(member_id):
                self.own[me] = member_id, -1
                return f"MEMBER_ID_REQUIRED {self._alias(member_id)}"
            case Joined():
                self.own[me] = answer.member_id, answer.generation_id
                return self._joined(answer)
            case Synced(type_, name, assignment):
                return f"synced {type_}/{name} {self._shown(assignment)}"
            case Left(errors):
                return " ".join(["left", *(code.name for code in errors)])
            case OffsetsCommitted(errors) | OffsetsDeleted(errors):
                verb = "committed" if isinstance(answer, OffsetsCommitted) else "deleted"
                return " ".join([verb, *(code.name for codes in errors for code in codes)])
            case OffsetsFetched(topics):
                return " ".join(
                    [
                        "fetched",
                        *(
                            f"{topic.name or '?'}-{each.partition}={_offset(each)}"
                            for topic in topics
                            for each in topic.partitions
                        ),
                    ]
                )
            case GroupsListed(groups):
                return " ".join(
                    [
                        "listed",
                        *(
                            f"{each.group_id or NOTHING}:{each.state}"
                            f":{each.protocol_type or '-'}:{each.type}"
                            for each in groups
                        ),
                    ]
                )
            case DescribedGroup():
                return self._described(answer)
        raise TypeError(answer)

    def _joined(self, answer: Joined) -> str:
        leader = self._alias(answer.leader)
        members = [
            f"{self._alias(each.member_id)}{f'/{each.instance_id}' if each.instance_id else ''}"
            f"({_metadata(each.metadata)})"
            for each in answer.members
        ]
        words = [
            "joined",
            self._alias(answer.member_id),
            f"generation={answer.generation_id}",
            f"{answer.protocol_type}/{answer.protocol_name}",
        ]
        return " ".join(
            [
                *words,
                f"leader={leader}",
                *(["skip"] if answer.skip_assignment else []),
                *(["of", *members] if members else []),
            ]
        )

    def _described(self, answer: DescribedGroup) -> str:
        members = [
            f"{self._alias(each.member_id)}{f'/{each.instance_id}' if each.instance_id else ''}"
            f"[{each.client_id}]({_metadata(each.metadata)})={self._shown(each.assignment)}"
            for each in answer.members
        ]
        return " ".join(
            [answer.state, f"{answer.protocol_type or '-'}/{answer.protocol_name or '-'}", *members]
        )

    def _shown(self, assignment: bytes) -> str:
        return assignment.decode() or NOTHING

    # names

    def _alias(self, member_id: str) -> str:
        return (
            self.aliases.setdefault(member_id, f"m{len(self.aliases) + 1}")
            if member_id
            else NOTHING
        )

    def _real(self, alias: str) -> str:
        """Of a word that is none, itself: somebody who made an id up."""
        return next(
            (member_id for member_id, known in self.aliases.items() if known == alias), alias
        )

    def _member(self, who: str, words: Words) -> str:
        said = words.get("member")
        if said:
            return "" if said == "new" else self._real(said)
        return self.own.get((who, NOBODY.get(words.bare[1], words.bare[1])), ("", -1))[0]

    def _generation(self, who: str, words: Words) -> int:
        return words.number(
            "generation", self.own.get((who, NOBODY.get(words.bare[1], words.bare[1])), ("", -1))[1]
        )

    def _partitions(self, words: Words, known: tuple[str, ...]) -> Iterator[tuple[str | None, str]]:
        for each in words.named:
            if each not in known:
                name, _, index = each.rpartition("-")
                yield None if name == "?" else name, index


NOTHING = "''"


def _replaying(
    record: Record, producer: tuple[int, int] | None
) -> Callable[[GroupCoordinator], None]:
    if producer is None:
        return lambda machine: machine.replay(record)
    return lambda machine: machine.replay_pending(producer[0], record)


def _protocol(text: str, protocol_type: str, owned: str = "") -> Protocol:
    name, _, topics = text.partition(":")
    if owned:
        return Protocol(
            name,
            subscription(topics.split("+"), 1, filter(None, owned.replace("''", "").split(","))),
        )
    return Protocol(
        name,
        subscription(topics.split("+") if topics else [])
        if protocol_type == "consumer" and topics != "?"
        else topics.encode(),
    )


def _metadata(data: bytes) -> str:
    topics = topics_of([data]) if data else None
    return data.decode("ascii", "replace") if topics is None else "+".join(sorted(topics))


def _commit(partition: int, text: str) -> CommitPartition:
    numbers, colon, metadata = text.partition(":")
    offset, _, epoch = numbers.partition("@")
    return CommitPartition(
        partition,
        int(offset),
        int(epoch or -1),
        metadata * (4097 if metadata == "x" else 1) if colon else None,
    )


def _offset(found: FetchedPartition) -> str:
    epoch = f"@{found.leader_epoch}" if found.leader_epoch >= 0 else ""
    return (
        f"{found.offset}{epoch}"
        + (f":{found.metadata}" if found.metadata else "")
        + (f"!{found.error.name}" if found.error != Code.NONE else "")
    )
