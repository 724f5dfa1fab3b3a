"""Checks that the records of a batch are of schemas of their subjects, as Confluent's broker does,
and that their payloads fit these schemas where the topic asks for it.

A check is a generator: it goes on at once as long as the answers of the registry are kept, and
yields a function that begins longer work. When the registry or the judge does not answer, the batch
is refused with an error after which producers try again: the broker takes no unchecked record.
"""

from collections.abc import Callable, Generator, Mapping
from functools import partial
from math import inf
from typing import NamedTuple, Protocol, TypeVar, cast

from raftka.broker.context import BrokerContext
from raftka.broker.produce.schemas.dead_letters import DeadLetters, Origin, letters_of
from raftka.broker.produce.schemas.registry import Known, RegistryAway, SchemaRegistry
from raftka.broker.produce.schemas.schema_ids import (
    Errors,
    Part,
    SchemaIds,
    Use,
    find_schema_ids,
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
from raftka.schemas.client import (
    GRACE_S,
    Question,
    Reference,
    ask_message_names,
    ask_schema,
    ask_subjects,
    ask_version,
)
from raftka.schemas.framing import Indexes
from raftka.wire.errors import Code, KafkaError, without_frames

KEPT_S = 300.0  # a schema that was found under its subject may be deleted there for so long
AGAIN_S = 1.0  # between two questions for a schema that is not there
MAX_REFERENCES = 1_000
TOLD = 1_000  # records that a refusal names
SHOWN = 300  # characters of a reason
# Kafka's own choice where a leader cannot check a batch that it must check
TRY_AGAIN = Code.NOT_ENOUGH_REPLICAS
TOO_LARGE = frozenset({Code.MESSAGE_TOO_LARGE, Code.RECORD_LIST_TOO_LARGE})
REJECTED = "raftka_schema_rejected_records_total"

T = TypeVar("T")
# Calls the given function with a result or an exception, in a later turn.
Begin = Callable[[Callable[[object], None]], None]
Steps = Generator[Begin, object, T]
Wanted = Callable[[], bool]


class WholeSchema(NamedTuple):
    schema_id: int
    kind: str
    text: str
    references: tuple[tuple[str, str], ...]  # name and text, each after those that it needs itself


class PayloadJudge(Protocol):
    def judge(self, schema: WholeSchema, payloads: list[bytes]) -> list[str | None]:
        """Return the reason why each payload is no value of the schema; None: it is one. Called off
        the loop. Raise OSError when the judge cannot answer now.
        """


class Check(NamedTuple):
    """A batch to check, and the request that brought it."""

    needed: NeedsSchemas
    origin: Origin
    may_write: Callable[[str], bool]  # the client may write to that topic
    wanted: Wanted
    came_at: float  # on the runtime's clock: the check sees all schemas registered before
    hold: Callable[[], None]  # called once, before the first work that ends in a later turn

    def rule(self, part: Part) -> SchemaRule:
        return dict(rules_of(self.needed.rules))[part]


class SchemaChecks:
    def __init__(
        self, context: BrokerContext, registry: SchemaRegistry, letters: DeadLetters
    ) -> None:
        self.registry = registry
        self.judge: PayloadJudge | None = None  # set by the code that starts the node
        self._context = context
        self._letters = letters
        # A worker of its own: the judge's thread waits for another process most of the time, and
        # batches that are compressed anew need not wait for that.
        self._worker = BackgroundWorker(context.runtime.offload, context.metrics)

    def begin(self, check: Check, done: Callable[[Prepared | BaseException], None]) -> None:
        """`done` is called once, perhaps at once: with the batch for the log, or with the error to
        answer.
        """
        self._advance(check, self._check_batch(check), None, done, is_first=True)

    def _advance(
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
            begin(lambda came: self._advance(check, steps, came, done))

    # steps

    def _check_batch(self, check: Check) -> Steps[Prepared]:
        needed = check.needed
        errors = yield from self._find_errors(check)
        if not errors:
            return Prepared(needed.batch, None, needed.rules)
        self._context.metrics.count(REJECTED, len(errors))
        topic = needed.rules.dead_letter_topic
        if not topic:
            raise refusal(errors)
        reason = self._letters.find_obstacle(topic, needed.batch, check.may_write)
        if reason is not None:
            raise refusal(errors, reason)
        most_bytes = self._letters.most_bytes(topic)
        work = lambda: (  # noqa: E731
            needed.without(errors),
            letters_of(needed.batch, errors, check.origin, most_bytes),
        )
        prepared, letters = yield from self._run_beside(check, work)
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

    def _find_errors(self, check: Check) -> Steps[Errors]:
        found = yield from self._find_schema_ids(check, frozenset())
        messages = yield from self._message_names(check, found)
        if messages:
            found = yield from self._find_schema_ids(check, frozenset(messages))
        errors = found.errors
        has_waited = False
        right: dict[tuple[Part, int], set[int]] = {}
        for use, places in found.uses.items():
            reason, has_waited = yield from self._find_fault(
                check, use, messages.get(use.schema_id, {}), has_waited
            )
            if reason is not None:
                errors |= {place: reason for place in places if place not in errors}
            elif check.rule(use.part).payload:
                right.setdefault((use.part, use.schema_id), set()).update(
                    place for place in places if place not in errors
                )
        for (_, schema_id), reasons in (yield from self._judge_payloads(check, right)).items():
            errors |= {
                place: f"it is no value of schema {schema_id}: {reason}"
                for place, reason in reasons
                if place not in errors
            }
        return dict(sorted(errors.items()))

    def _find_schema_ids(self, check: Check, with_indexes: frozenset[int]) -> Steps[SchemaIds]:
        needed = check.needed
        if needed.is_small:
            return find_schema_ids(needed.batch, needed.rules, with_indexes)
        return (
            yield from self._run_beside(
                check, lambda: find_schema_ids(needed.batch, needed.rules, with_indexes)
            )
        )

    def _run_beside(self, check: Check, work: Callable[[], T]) -> Steps[T]:
        """Run work in a thread. Raise REQUEST_TIMED_OUT where too much work waits for it."""
        size = opened_bytes(check.needed.batch)
        self._worker.check_room(size)
        return cast(T, (yield lambda done: self._worker.run(size, work, done, check.wanted)))

    def _message_names(
        self, check: Check, found: SchemaIds
    ) -> Steps[dict[int, Mapping[Indexes, str]]]:
        """Return the names of messages by schema id, of the Protobuf schemas whose subjects are
        named after messages.
        """
        messages: dict[int, Mapping[Indexes, str]] = {}
        for schema_id in sorted(
            {use.schema_id for use in found.uses if check.rule(use.part).strategy != TOPIC_NAME}
        ):
            schema = yield from self._fetch(check, ask_schema(schema_id))
            if schema is not None and schema.kind == "PROTOBUF":
                messages[schema_id] = (
                    yield from self._fetch(check, ask_message_names(schema_id))
                ) or {}
        return messages

    def _fetch(self, check: Check, question: Question[T]) -> Steps[T | None]:
        """Return the value of an answer that never changes once it is there; None: there was none
        when the batch came. Raise RegistryAway.
        """
        found = self.registry.known(question, inf)
        if found is None or (found.value is None and found.asked_at < check.came_at):
            found = yield from self._ask_registry(check, question, found)
        return cast(T | None, found.value)

    def _ask_registry(
        self, check: Check, question: Question[T], before: Known | None
    ) -> Steps[Known]:
        """Ask the registry, if no other batch has done so since this one came. Batches that name a
        missing schema wait for each other: one question in AGAIN_S.
        """
        if before is not None:
            yield partial(self._pause, before.asked_at + AGAIN_S - self._now())
            found = self.registry.known(question, inf)
            if found is not None and found.asked_at >= check.came_at:
                return found
        return cast(Known, (yield partial(self.registry.ask, question)))

    def _find_fault(
        self, check: Check, use: Use, messages: Mapping[Indexes, str], has_waited: bool
    ) -> Steps[tuple[str | None, bool]]:
        """Return the reason why the schema is none of the subject's, or None; and True when this
        batch has waited for a registry that may be behind.
        """
        subject = yield from self._subject_of(check, use, messages)
        if subject is None:
            return (
                f"schema {use.schema_id} of the {use.part} is not registered, or has no name of a "
                "record for its subject",
                has_waited,
            )
        question = ask_subjects(use.schema_id)
        here = f"schema {use.schema_id} of the {use.part} is not registered under subject {subject}"
        found = self.registry.known(question, KEPT_S)
        if _has(found, subject):
            return None, has_waited
        if found is None or found.asked_at < check.came_at:
            found = yield from self._ask_registry(check, question, found)
        if not _has(found, subject) and not has_waited:
            has_waited = True
            yield partial(self._pause, GRACE_S)
            found = cast(Known, (yield partial(self.registry.ask, question)))
        return (None if _has(found, subject) else here), has_waited

    def _pause(self, seconds: float, done: Callable[[None], None]) -> None:
        self._context.runtime.clock.call_at(self._now() + max(0.0, seconds), partial(done, None))

    def _now(self) -> float:
        return self._context.runtime.clock.now()

    def _subject_of(
        self, check: Check, use: Use, messages: Mapping[Indexes, str]
    ) -> Steps[str | None]:
        strategy = check.rule(use.part).strategy
        if strategy == TOPIC_NAME:
            return f"{check.origin.topic}-{use.part}"
        schema = yield from self._fetch(check, ask_schema(use.schema_id))
        if schema is None:
            return None
        name = messages.get(use.indexes) if schema.kind == "PROTOBUF" else schema.name
        return name if name is None or strategy == RECORD_NAME else f"{check.origin.topic}-{name}"

    # payloads

    def _judge_payloads(
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
        for schema_id in sorted({schema_id for _, schema_id in uses}):
            schemas[schema_id] = yield from self._with_references(check, schema_id)

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
            return (yield from self._run_beside(check, work))
        except OSError as error:
            self._context.events.warning("schema_payloads_not_judged", reason=str(error))
            raise KafkaError(
                TRY_AGAIN, "Payloads cannot be compared with their schemas now: send them again"
            ) from error

    def _with_references(self, check: Check, schema_id: int) -> Steps[WholeSchema]:
        """Return the schema with the texts of all schemas that it refers to."""
        schema = yield from self._fetch(check, ask_schema(schema_id))
        if schema is None:
            raise KafkaError(
                TRY_AGAIN,
                f"The schema registry has schema {schema_id} no more: send the records again",
            )
        texts: dict[str, str] = {}
        seen: set[tuple[str, int]] = set()
        waiting = [(each, False) for each in reversed(schema.references)]
        while waiting:
            (name, subject, version), is_ready = waiting.pop()
            other = yield from self._fetch(check, ask_version(subject, version))
            if other is None:
                continue  # the judge finds that the schema cannot be used
            if is_ready:
                texts.setdefault(name, other.text)
            elif (subject, version) not in seen:
                seen.add((subject, version))
                if len(seen) > MAX_REFERENCES:
                    raise RefusedRecords(
                        Code.INVALID_RECORD,
                        f"schema {schema_id} refers to more than {MAX_REFERENCES} others",
                    )
                waiting.append((Reference(name, subject, version), True))
                waiting += [(each, False) for each in reversed(other.references)]
        return WholeSchema(schema_id, schema.kind, schema.text, tuple(texts.items()))


def _has(found: Known | None, subject: str) -> bool:
    return found is not None and subject in cast(frozenset[str], found.value or frozenset())


def refusal(errors: Errors, also: str = "") -> RefusedRecords:
    """Return INVALID_RECORD for the whole batch, which names its first thousand wrong records."""
    shown = [
        (place, (reason if len(reason) <= SHOWN else f"{reason[:SHOWN]}...") + also)
        for place, reason in list(errors.items())[:TOLD]
    ]
    return wrong_records(shown, len(errors))
