"""Compares the records of a batch with the schemas of their subjects, as Confluent's broker does,
and their payloads where the topic asks for it.

A check is a generator: it goes on at once as long as answers of the registry are kept, and yields a
function that begins what takes longer. What cannot be found out is refused with an error that
producers try again: no record is taken that was not compared.
"""

from collections.abc import Callable, Generator, Mapping
from functools import partial
from math import inf
from typing import NamedTuple, Protocol, TypeVar, cast

from raftka.broker.context import BrokerContext
from raftka.broker.produce.schemas.dead_letters import DeadLetters, Origin, letters_of
from raftka.broker.produce.schemas.names import Indexes
from raftka.broker.produce.schemas.registry import (
    Document,
    Question,
    RegistryAway,
    SchemaRegistry,
    messages_of,
    schema_of,
    subjects_of,
    version_of,
)
from raftka.broker.produce.schemas.schema_ids import (
    Errors,
    Numbers,
    Part,
    Use,
    numbers_of,
    payloads_of,
    rules_of,
)
from raftka.broker.work.background_worker import BackgroundWorker
from raftka.limits import LimitExceeded
from raftka.log.config import RECORD_NAME, TOPIC_NAME, SchemaRule
from raftka.log.validation import (
    NeedsSchemas,
    Prepared,
    RefusedRecords,
    opened_bytes,
    wrong_records,
)
from raftka.wire.errors import Code, KafkaError, without_frames

KEPT_S = 300.0  # a schema that was found under its subject may be deleted there for so long
AGAIN_S = 1.0  # between two questions for what is not there
GRACE_S = 0.5  # an instance of a registry may be a moment behind the one that registered a schema
MOST_REFERENCES = 1_000
TOLD = 1_000  # records that a refusal names
SHOWN = 300  # characters of why
# Kafka's own choice where a leader cannot ask what it must ask first
TRY_AGAIN = Code.NOT_ENOUGH_REPLICAS
TOO_LARGE = frozenset({Code.MESSAGE_TOO_LARGE, Code.RECORD_LIST_TOO_LARGE})
REJECTED = "raftka_schema_rejected_records_total"

T = TypeVar("T")
# calls the function that it is given with a result or an exception, in a later turn
Begin = Callable[[Callable[[object], None]], None]
Steps = Generator[Begin, object, T]
Wanted = Callable[[], bool]


class WholeSchema(NamedTuple):
    number: int
    kind: str
    text: str
    references: tuple[tuple[str, str], ...]  # name and text, each after those that it needs itself


class PayloadJudge(Protocol):
    def judge(self, schema: WholeSchema, payloads: list[bytes]) -> list[str | None]:
        """Off the loop: why each is no value of the schema; None: it is one. Raises OSError when
        that cannot be found out now.
        """


class Check(NamedTuple):
    """Of one batch; `topic` names subjects."""

    needed: NeedsSchemas
    origin: Origin
    may_write: Callable[[str], bool]  # whether the client may write to that topic
    wanted: Wanted
    came_at: float  # on the runtime's clock: what was registered before is seen
    hold: Callable[[], None]  # called before anything that ends in a later turn

    def rule(self, part: Part) -> SchemaRule:
        return dict(rules_of(self.needed.rules))[part]


class SchemaChecks:
    def __init__(
        self, context: BrokerContext, registry: SchemaRegistry, letters: DeadLetters
    ) -> None:
        self.registry = registry
        self.judge: PayloadJudge | None = None  # the code that starts the node puts it here
        self._context = context
        self._letters = letters
        # Its own: a judge's thread waits for another process most of the time, and batches that are
        # compressed anew need not wait for that.
        self._worker = BackgroundWorker(context.runtime.offload, context.metrics)

    def begin(self, check: Check, done: Callable[[Prepared | BaseException], None]) -> None:
        """`done` is called once, perhaps at once: with the batch for the log, or with the error to
        answer.
        """
        self._go_on(check, self._steps(check), None, done, is_first=True)

    def _go_on(
        self,
        check: Check,
        steps: Steps[Prepared],
        result: object,
        done: Callable[[Prepared | BaseException], None],
        *,
        is_first: bool = False,
    ) -> None:
        if not is_first and not check.wanted():
            steps.close()
            done(KafkaError(Code.REQUEST_TIMED_OUT, "the client has gone"))
            return
        try:
            begin = steps.throw(result) if isinstance(result, BaseException) else steps.send(result)
        except StopIteration as end:
            done(end.value)
        except LimitExceeded as error:
            self._context.metrics.hit(error.limit)
            done(RefusedRecords(Code.INVALID_RECORD, str(error)))
        except RegistryAway:
            done(
                KafkaError(
                    TRY_AGAIN,
                    "The schema registry gives no answer: the records cannot be compared with "
                    "their schemas now, send them again",
                )
            )
        except KafkaError as error:
            done(without_frames(error))
        except Exception as error:
            done(error)
        else:
            if is_first:
                check.hold()
            begin(lambda came: self._go_on(check, steps, came, done))

    # steps

    def _steps(self, check: Check) -> Steps[Prepared]:
        needed = check.needed
        errors = yield from self._errors(check)
        if not errors:
            return Prepared(needed.batch, None, needed.rules)
        self._context.metrics.count(REJECTED, len(errors))
        topic = needed.rules.dead_letter_topic
        if not topic:
            raise refusal(errors)
        reason = self._letters.unfit(topic, needed.batch, check.may_write)
        if reason is not None:
            raise refusal(errors, reason)
        most_bytes = self._letters.most_bytes(topic)
        work = lambda: (  # noqa: E731
            needed.without(errors),
            letters_of(needed.batch, errors, check.origin, most_bytes),
        )
        prepared, letters = yield from self._work(check, work)
        try:
            yield partial(self._letters.send, topic, letters)
        except KafkaError as error:
            if error.code in TOO_LARGE:
                raise refusal(
                    errors, f"; and it is too large for the dead letter topic {topic}"
                ) from None
            text = (
                f"Records could not be written to the dead letter topic {topic} "
                f"({error.code.name}): send them again"
            )
            raise KafkaError(TRY_AGAIN, text) from None
        return prepared

    def _errors(self, check: Check) -> Steps[Errors]:
        found = yield from self._numbers(check, frozenset())
        messages = yield from self._messages(check, found)
        if messages:
            found = yield from self._numbers(check, frozenset(messages))
        errors = found.errors
        has_waited = False
        right: dict[tuple[Part, int], set[int]] = {}
        for use, places in found.uses.items():
            reason, has_waited = yield from self._wrong(
                check, use, messages.get(use.number, {}), has_waited
            )
            if reason is not None:
                errors |= {place: reason for place in places if place not in errors}
            elif check.rule(use.part).payload:
                right.setdefault((use.part, use.number), set()).update(
                    place for place in places if place not in errors
                )
        for (_, number), reasons in (yield from self._judged(check, right)).items():
            errors |= {
                place: f"it is no value of schema {number}: {reason}"
                for place, reason in reasons
                if place not in errors
            }
        return dict(sorted(errors.items()))

    def _numbers(self, check: Check, messages: frozenset[int]) -> Steps[Numbers]:
        needed = check.needed
        if needed.is_small:
            return numbers_of(needed.batch, needed.rules, messages)
        return (
            yield from self._work(check, lambda: numbers_of(needed.batch, needed.rules, messages))
        )

    def _work(self, check: Check, work: Callable[[], T]) -> Steps[T]:
        """In a thread. Raises REQUEST_TIMED_OUT where too much waits for that."""
        size = opened_bytes(check.needed.batch)
        self._worker.check_room(size)
        return cast(T, (yield lambda done: self._worker.run(size, work, done, check.wanted)))

    def _messages(self, check: Check, found: Numbers) -> Steps[dict[int, Mapping[Indexes, str]]]:
        """The names of messages by number, of the Protobuf schemas whose subjects are named after
        them.
        """
        messages: dict[int, Mapping[Indexes, str]] = {}
        for number in sorted(
            {use.number for use in found.uses if check.rule(use.part).strategy != TOPIC_NAME}
        ):
            schema = yield from self._document(check, schema_of(number))
            if schema is not None and schema.kind == "PROTOBUF":
                messages[number] = (yield from self._document(check, messages_of(number))) or {}
        return messages

    def _document(self, check: Check, question: Question[T]) -> Steps[T | None]:
        """The value of what never changes once it is there, None where there was none when the
        batch came. Raises RegistryAway.
        """
        found = self.registry.known(question, inf)
        if found is None or (found.value is None and found.at < check.came_at):
            found = yield from self._asked(check, question, found)
        return cast(T | None, found.value)

    def _asked(
        self, check: Check, question: Question[T], before: Document | None
    ) -> Steps[Document]:
        """What the registry has said since the batch came. Batches that name what is not there wait
        for each other: one question in AGAIN_S.
        """
        if before is not None:
            yield partial(self._pause, before.at + AGAIN_S - self._now())
            found = self.registry.known(question, inf)
            if found is not None and found.at >= check.came_at:
                return found
        return cast(Document, (yield partial(self.registry.ask, question)))

    def _wrong(
        self, check: Check, use: Use, messages: Mapping[Indexes, str], has_waited: bool
    ) -> Steps[tuple[str | None, bool]]:
        """Why the schema is none of the subject's; and whether this batch has waited for a registry
        that may be behind.
        """
        subject = yield from self._subject(check, use, messages)
        if subject is None:
            return (
                f"schema {use.number} of the {use.part} is not registered, or has no name of a "
                "record for its subject",
                has_waited,
            )
        question = subjects_of(use.number)
        here = f"schema {use.number} of the {use.part} is not registered under subject {subject}"
        found = self.registry.known(question, KEPT_S)
        if _has(found, subject):
            return None, has_waited
        if found is None or found.at < check.came_at:
            found = yield from self._asked(check, question, found)
        if not _has(found, subject) and not has_waited:
            has_waited = True
            yield partial(self._pause, GRACE_S)
            found = cast(Document, (yield partial(self.registry.ask, question)))
        return (None if _has(found, subject) else here), has_waited

    def _pause(self, seconds: float, done: Callable[[None], None]) -> None:
        self._context.runtime.clock.call_at(self._now() + max(0.0, seconds), partial(done, None))

    def _now(self) -> float:
        return self._context.runtime.clock.now()

    def _subject(
        self, check: Check, use: Use, messages: Mapping[Indexes, str]
    ) -> Steps[str | None]:
        strategy = check.rule(use.part).strategy
        if strategy == TOPIC_NAME:
            return f"{check.origin.topic}-{use.part}"
        schema = yield from self._document(check, schema_of(use.number))
        if schema is None:
            return None
        name = messages.get(use.indexes) if schema.kind == "PROTOBUF" else schema.name
        return name if name is None or strategy == RECORD_NAME else f"{check.origin.topic}-{name}"

    # payloads

    def _judged(
        self, check: Check, uses: dict[tuple[Part, int], set[int]]
    ) -> Steps[dict[tuple[Part, int], list[tuple[int, str]]]]:
        if not uses:
            return {}
        judge = self.judge
        if judge is None:
            raise KafkaError(
                TRY_AGAIN,
                "Payloads cannot be compared with their schemas on this node: it needs "
                "raftka[registry]",
            )
        schemas = {}
        for number in sorted({number for _, number in uses}):
            schemas[number] = yield from self._whole(check, number)

        def work() -> dict[tuple[Part, int], list[tuple[int, str]]]:
            wrong: dict[tuple[Part, int], list[tuple[int, str]]] = {}
            for use, payloads in payloads_of(check.needed.batch, uses).items():
                reasons = judge.judge(schemas[use[1]], [payload for _, payload in payloads])
                wrong[use] = [
                    (place, reason)
                    for (place, _), reason in zip(payloads, reasons, strict=True)
                    if reason is not None
                ]
            return wrong

        try:
            return (yield from self._work(check, work))
        except OSError as error:
            self._context.events.warning("schema_payloads_not_judged", reason=str(error))
            raise KafkaError(
                TRY_AGAIN, "Payloads cannot be compared with their schemas now: send them again"
            ) from error

    def _whole(self, check: Check, number: int) -> Steps[WholeSchema]:
        """The schema with the texts of all that it refers to."""
        schema = yield from self._document(check, schema_of(number))
        if schema is None:
            raise KafkaError(
                TRY_AGAIN,
                f"The schema registry has schema {number} no more: send the records again",
            )
        texts: dict[str, str] = {}
        seen: set[tuple[str, int]] = set()
        waiting = [(each, False) for each in reversed(schema.references)]
        while waiting:
            (name, subject, version), is_ready = waiting.pop()
            other = yield from self._document(check, version_of(subject, version))
            if other is None:
                continue  # the judge finds that the schema cannot be used
            if is_ready:
                texts.setdefault(name, other.text)
            elif (subject, version) not in seen:
                seen.add((subject, version))
                if len(seen) > MOST_REFERENCES:
                    raise RefusedRecords(
                        Code.INVALID_RECORD,
                        f"schema {number} refers to more than {MOST_REFERENCES} others",
                    )
                waiting.append(((name, subject, version), True))
                waiting += [(each, False) for each in reversed(other.references)]
        return WholeSchema(number, schema.kind, schema.text, tuple(texts.items()))


def _has(found: Document | None, subject: str) -> bool:
    return found is not None and subject in cast(frozenset[str], found.value or frozenset())


def refusal(errors: Errors, also: str = "") -> RefusedRecords:
    """INVALID_RECORD for the whole batch, which names the first thousand records of it that are
    wrong.
    """
    shown = [
        (place, (reason if len(reason) <= SHOWN else f"{reason[:SHOWN]}...") + also)
        for place, reason in list(errors.items())[:TOLD]
    ]
    return wrong_records(shown, len(errors))
