"""The view of a login: what is asked of the cluster for its pages, each thing kept for a while.
Every method answers from what is kept when that is young enough.
"""

import threading
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import NamedTuple, TypeVar, cast

from raftka.client.blocking.access import (
    Quota,
    ScramUser,
    list_acls,
    list_quotas,
    list_scram_users,
)
from raftka.client.blocking.client import Client, Where
from raftka.client.blocking.every_broker import Answers
from raftka.console.limits import KEPT_QUESTIONS, SINGLE_QUESTIONS
from raftka.console.view.brokers import Brokers
from raftka.console.view.cached import Aged, Cached, Effort
from raftka.console.view.ends import (
    Ends,
    Offsets,
    messages_by_topic,
    read_offsets,
    with_rates,
)
from raftka.console.view.groups import (
    Committed,
    Groups,
    Lags,
    lags_of,
    read_committed,
    read_groups,
)
from raftka.console.view.metadata import Metadata, read_metadata
from raftka.console.view.sizes import Replicas, Sizes, read_replicas, read_sizes
from raftka.security.acls import Acl
from raftka.wire.messages.list_offsets import EARLIEST, LATEST
from raftka.wire.messages.metadata import METADATA
from raftka.wire.schema import Api, Req, Resp

T = TypeVar("T")
METADATA_S, GROUPS_S, BULK_S, STARTS_S = 2.0, 5.0, 10.0, 60.0  # ages that serve inside the view


class Overview(NamedTuple):
    """Figures of all topics as far as they are known without a wait. None: being read for the first
    time.
    """

    sizes: Sizes | None
    ends: Ends | None
    messages: Mapping[str, int] | None
    lags: Lags | None
    age_s: float  # of the oldest

    @property
    def pending(self) -> list[str]:
        """Names of what is not known yet."""
        return [name for name, part in self._asdict().items() if part is None]


class View:
    """For many threads. Sessions of one login share it: then five browsers cost the cluster what
    one does. Methods raise OSError when no broker answers, ClientError and KafkaError.

    `max_age_s`: seconds since the value was asked for. An older value comes at once while a newer
    one is on its way; `Cached.get` has the rules.
    """

    def __init__(self, make_client: Callable[[], Client]) -> None:
        """`make_client`: a client with the login of the view; it is not connected yet."""
        self._brokers = Brokers(make_client)
        self._lock = threading.Lock()
        self._questions: OrderedDict[tuple[object, ...], object] = OrderedDict()
        self.kept_metadata: Cached[Metadata] = Cached(lambda _: read_metadata(self._brokers))
        self.kept_sizes: Cached[Sizes] = Cached(
            lambda effort: read_sizes(self._brokers, self._known(effort), effort)
        )
        self.kept_ends: Cached[Ends] = Cached(self._read_ends)
        self.kept_starts: Cached[Offsets] = Cached(
            lambda effort: read_offsets(self._brokers, self._known(effort), None, EARLIEST, effort)
        )
        self.kept_messages: Cached[dict[str, int]] = Cached(self._count_messages)
        self.kept_groups: Cached[Groups] = Cached(
            lambda effort: read_groups(self._brokers, self._known(effort), effort)
        )
        self.kept_committed: Cached[Committed] = Cached(
            lambda effort: self._read_committed(None, effort)
        )
        self.kept_lags: Cached[Lags] = Cached(self._read_lags)
        self.kept_acls: Cached[list[Acl]] = Cached(lambda _: self._ask_any(list_acls))
        self.kept_quotas: Cached[list[Quota]] = Cached(lambda _: self._ask_any(list_quotas))
        self.kept_users: Cached[list[ScramUser]] = Cached(lambda _: self._ask_any(list_scram_users))

    # brokers and topics

    def metadata(self, max_age_s: float = METADATA_S) -> Metadata:
        """Brokers, controller and all topics with their partitions."""
        return self.kept_metadata.get(max_age_s).value

    def sizes(self, max_age_s: float = BULK_S) -> Sizes:
        """Bytes by partition, topic, broker and log directory."""
        return self.kept_sizes.get(max_age_s).value

    def replicas(self, topic: str, max_age_s: float = METADATA_S) -> Replicas:
        """The replicas of one topic: where they lie, their bytes, how far they are behind."""
        return (
            self._keep(
                ("replicas", topic),
                lambda effort: read_replicas(self._brokers, self._known(effort), topic, effort),
            )
            .get(max_age_s)
            .value
        )

    # offsets

    def ends(self, wheres: Iterable[Where], max_age_s: float = METADATA_S) -> Mapping[Where, int]:
        """The high watermarks of these partitions, as far as their leaders tell."""
        return self.offsets(wheres, LATEST, max_age_s).of

    def starts(self, wheres: Iterable[Where], max_age_s: float = METADATA_S) -> Mapping[Where, int]:
        """The first offsets of these partitions, as far as their leaders tell."""
        return self.offsets(wheres, EARLIEST, max_age_s).of

    def offsets(
        self, wheres: Iterable[Where], time_ms: int, max_age_s: float = METADATA_S
    ) -> Offsets:
        """Offsets at LATEST, EARLIEST or a time (ms since 1970), with the reasons of those that
        lack. Of very many partitions only the former two are asked, of all partitions at once.
        """
        asked = frozenset(wheres)
        if len(asked) > SINGLE_QUESTIONS.value and time_ms in (LATEST, EARLIEST):
            whole = (
                self.all_ends(max_age_s).offsets
                if time_ms == LATEST
                else self.kept_starts.get(max_age_s).value
            )
            return whole._replace(
                of={where: whole.of[where] for where in asked if where in whole.of}
            )
        return (
            self._keep(
                ("offsets", time_ms, asked),
                lambda effort: read_offsets(
                    self._brokers, self._known(effort), asked, time_ms, effort
                ),
            )
            .get(max_age_s)
            .value
        )

    def all_ends(self, max_age_s: float = BULK_S) -> Ends:
        """The ends of all partitions, and their growth in records a second."""
        return self.kept_ends.get(max_age_s).value

    def messages(self, max_age_s: float = BULK_S) -> Mapping[str, int]:
        """Offsets between first and last by topic: of a compacted topic more than its records."""
        return self.kept_messages.get(max_age_s).value

    # groups

    def groups(self, max_age_s: float = GROUPS_S) -> Groups:
        """All groups by id."""
        return self.kept_groups.get(max_age_s).value

    def committed(
        self, group_ids: Collection[str], max_age_s: float = GROUPS_S
    ) -> Mapping[str, Mapping[Where, int]]:
        """The committed offsets of these groups, as far as their coordinators tell."""
        if len(group_ids) > SINGLE_QUESTIONS.value:
            of = self.kept_committed.get(max_age_s).value.of
            return {each: of[each] for each in group_ids if each in of}
        asked = frozenset(group_ids)
        return (
            self._keep(
                ("committed", asked),
                lambda effort: self._read_committed(asked, effort),
            )
            .get(max_age_s)
            .value.of
        )

    def lags(self, max_age_s: float = BULK_S) -> Lags:
        """Records of lag by group and by topic."""
        return self.kept_lags.get(max_age_s).value

    # access

    def acls(self, max_age_s: float = GROUPS_S) -> list[Acl]:
        """All ACLs, sorted. Raises SECURITY_DISABLED where brokers have no authorizer."""
        return self.kept_acls.get(max_age_s).value

    def quotas(self, max_age_s: float = GROUPS_S) -> list[Quota]:
        return self.kept_quotas.get(max_age_s).value

    def scram_users(self, max_age_s: float = GROUPS_S) -> list[ScramUser]:
        """Users with SCRAM credentials, by name."""
        return self.kept_users.get(max_age_s).value

    # all

    def overview(self, max_age_s: float = BULK_S) -> Overview:
        """Return the figures of all topics as far as they are known. Those that are too old, or
        not there, are read in the background: a first page does not wait for them.
        """
        sizes, ends = self.kept_sizes.peek(max_age_s), self.kept_ends.peek(max_age_s)
        messages, lags = self.kept_messages.peek(max_age_s), self.kept_lags.peek(max_age_s)
        ages = [each.age_s for each in (sizes, ends, messages, lags) if each is not None]
        return Overview(
            _value(sizes), _value(ends), _value(messages), _value(lags), max(ages, default=0.0)
        )

    @property
    def missing(self) -> dict[int, str]:
        """Brokers that lack in what was read last, and why."""
        found: dict[int, str] = {}
        metadata, sizes, groups = (
            self.kept_metadata.last,
            self.kept_sizes.last,
            self.kept_groups.last,
        )
        ends, committed = self.kept_ends.last, self.kept_committed.last
        for part in (sizes, groups, committed, ends and ends.offsets, metadata):
            if part is not None:
                found |= part.missing
        return found

    def ask(
        self, api: Api[Req, Resp], rows: Mapping[int, Req], version: int | None = None
    ) -> Answers[Resp]:
        """Ask each broker of `rows` its own question now; nothing is kept. `version` caps the
        API's. Raises Unsupported when a broker does not know the API.
        """
        return self._brokers.ask_each(self.metadata().addresses, api, rows, Effort(), version)

    def silent(self, node_ids: Collection[int]) -> dict[int, str]:
        """Return those of these brokers that do not answer now, and why."""
        rows = dict.fromkeys(node_ids, METADATA.request(topics=[]))
        return self.ask(METADATA, rows).missing

    def forget(self) -> None:
        """Read anew what a change of topics, settings or groups may have changed."""
        with self._lock:
            self._questions.clear()
        for kept in (self.kept_metadata, self.kept_groups):
            kept.forget()

    def close(self) -> None:
        self._brokers.close()

    def _keep(self, question: tuple[object, ...], refresh: Callable[[Effort], T]) -> Cached[T]:
        """The value of a small question; of those that were asked last."""
        with self._lock:
            kept = cast("Cached[T]", self._questions.pop(question, None) or Cached(refresh))
            self._questions[question] = kept
            if len(self._questions) > KEPT_QUESTIONS.value:
                self._questions.popitem(last=False)
            return kept

    def _ask_any(self, ask: Callable[[Client], T]) -> T:
        with self._brokers.any_broker() as client:
            return ask(client)

    # refreshes: another value that one needs is waited for, and has a cost of its own

    def _known(self, effort: Effort) -> Metadata:
        with effort.waiting():
            return self.metadata()

    def _read_ends(self, effort: Effort) -> Ends:
        before = self.kept_ends.last
        found = read_offsets(self._brokers, self._known(effort), None, LATEST, effort)
        return with_rates(found, before and before.offsets)

    def _count_messages(self, effort: Effort) -> dict[str, int]:
        with effort.waiting():
            starts, ends = self.kept_starts.get(STARTS_S).value, self.all_ends().offsets
        return messages_by_topic(starts, ends)

    def _read_committed(self, group_ids: frozenset[str] | None, effort: Effort) -> Committed:
        with effort.waiting():
            metadata, groups = self.metadata(), self.groups()
        return read_committed(self._brokers, metadata, groups, group_ids, effort)

    def _read_lags(self, effort: Effort) -> Lags:
        """Ask for offsets, then for ends: in the other order a quick consumer seems to be ahead."""
        with effort.waiting():
            committed = self.kept_committed.get(GROUPS_S).value
            ends = self.all_ends(0.0).offsets
        return lags_of(committed, ends)


def _value(aged: Aged[T] | None) -> T | None:
    return None if aged is None else aged.value
