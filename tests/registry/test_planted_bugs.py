"""Bugs planted in the registry: each makes the test of its rule fail, so that test is one."""

import threading
from collections.abc import Callable
from typing import Any

import pytest

from raftka.client.blocking.client import Client, Where
from raftka.client.blocking.producer import new_identity
from raftka.client.blocking.reader import Reader
from raftka.client.blocking.transaction import begin
from raftka.registry import log, records, registry, state
from raftka.registry.broker_access import BrokerAccess
from raftka.registry.errors import RegistryError
from raftka.registry.log import SchemasLog
from raftka.registry.parsed_schemas import ParsedSchemas
from raftka.registry.records import no_schema_record
from raftka.registry.registry import Registry
from raftka.registry.rest import api, requests
from raftka.registry.server import RegistryServer
from raftka.registry.settings import changes
from raftka.registry.subjects import Name
from raftka.testing import Cluster
from tests.registry import (
    test_access,
    test_api,
    test_contexts,
    test_modes,
    test_settings,
    test_takeover,
    test_writers,
)
from tests.registry.conftest import Make
from tests.registry.rest import Rest

FOUND = (AssertionError, RegistryError, LookupError)


def test_writes_without_a_transaction_are_found(
    logs: list[SchemasLog], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log, "begin", lambda client, *_: new_identity(client))
    monkeypatch.setattr(log, "end", lambda *_, **__: None)

    with pytest.raises(FOUND):
        test_writers.test_an_instance_that_was_overtaken_decides_again(logs)


def test_a_transaction_that_fences_nobody_is_found(
    logs: list[SchemasLog], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each instance has a name of its own."""
    names = iter(range(1000))
    monkeypatch.setattr(
        log, "begin", lambda client, name, ms: begin(client, f"{name}-{next(names)}", ms)
    )

    with pytest.raises(FOUND):
        test_writers.test_an_instance_that_was_overtaken_decides_again(logs)


def test_a_decision_without_the_newest_records_is_found(
    logs: list[SchemasLog], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of an instance that reads late."""
    reached, held, take = threading.Event(), threading.Event(), SchemasLog._take

    def late(self: SchemasLog, reader: Reader, records: Any) -> None:
        if self is logs[1]:
            reached.set()
            held.wait()
        take(self, reader, records)

    monkeypatch.setattr(SchemasLog, "_take", late)
    monkeypatch.setattr(SchemasLog, "_wait", lambda *_: None)
    assert reached.wait(60), "a poll that was under way takes its records as before"

    try:
        with pytest.raises(FOUND):
            test_writers.test_a_write_knows_what_another_instance_has_written(logs)
    finally:
        held.set()


@pytest.fixture
def reading_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    """Records of open and aborted transactions too."""

    def reader(client: Client, positions: dict[Where, int], *, committed: bool) -> Reader:
        return Reader(client, positions)

    monkeypatch.setattr(log, "Reader", reader)


def test_reading_what_was_not_committed_is_found(
    reading_everything: None, logs: list[SchemasLog], make_client: Make
) -> None:
    with pytest.raises(FOUND):
        test_writers.test_what_an_instance_wrote_that_died_before_its_commit_is_never_read(
            logs, make_client
        )


def test_ids_that_are_given_out_again_are_found(
    raftka_cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        Registry, "_gone", staticmethod(lambda _, versions: list(map(no_schema_record, versions)))
    )

    with pytest.raises(FOUND):
        test_writers.test_an_id_stays_used_when_compaction_has_taken_its_schema(raftka_cluster)


OF_REGISTRY: dict[str, tuple[str, Any, Callable[[Rest], None]]] = {
    "nothing is compared": (
        "_find_incompatibilities",
        lambda *_: [],
        test_api.test_a_schema_that_breaks_readers_is_refused,
    ),
    "modes do not count": (
        "_writable",
        lambda *_, **__: "READWRITE",
        test_api.test_a_registry_that_is_only_read,
    ),
    "what is referred to goes": (
        "_unreferenced",
        lambda *_: None,
        test_api.test_references_are_named_and_keep_what_they_name,
    ),
}


@pytest.mark.parametrize("bug", OF_REGISTRY)
def test_bugs_in_decisions_are_found(
    raftka_registry: RegistryServer, bug: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    name, planted, test = OF_REGISTRY[bug]
    monkeypatch.setattr(Registry, name, staticmethod(planted))

    with Rest(raftka_registry) as rest, pytest.raises(FOUND):
        test(rest)


def _known_alone(self: state.State, records: Any) -> Any:
    return records


def _level_stays(self: state.State, subject: str | None, found: Any) -> None:
    if found is None:
        self.settings.pop(subject, None)
    else:
        self.settings[subject] = {**self.settings.get(subject, {}), **records.known_settings(found)}


PARSED = ParsedSchemas.parsed
OF_RECORDS: dict[str, tuple[object, str, Any, Callable[[Rest, Cluster], None]]] = {
    "a record is written without what is not known": (
        state.State,
        "rewritten",
        _known_alone,
        test_takeover.test_a_soft_delete_keeps_all_fields_of_the_record,
    ),
    "settings are written without what is not known": (
        state,
        "unknown_fields",
        lambda kind, value: {},
        test_takeover.test_settings_keep_fields_that_are_not_known,
    ),
    "a level stays that a record does not set": (
        state.State,
        "_configure",
        _level_stays,
        test_takeover.test_a_settings_record_without_a_level_sets_none_at_once,
    ),
    "an id of 33 bits is the highest": (
        state,
        "LARGEST_NUMBER",
        1 << 40,
        lambda rest, cluster: test_takeover.test_an_id_beyond_32_bits_blocks_no_new_ones(rest),
    ),
    "old schemas are judged as new ones": (
        ParsedSchemas,
        "parsed",
        lambda self, kind, text, references, new=False: PARSED(
            self, kind, text, references, new=True
        ),
        lambda rest, cluster: (
            test_takeover.test_old_avro_schemas_are_looked_up_and_do_not_block_the_next_version(
                rest, "old-value"
            )
        ),
    ),
}


@pytest.mark.parametrize("bug", OF_RECORDS)
def test_bugs_in_taking_over_a_topic_are_found(
    raftka_cluster: Cluster, bug: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    where, name, planted, test = OF_RECORDS[bug]
    monkeypatch.setattr(where, name, planted)

    with (
        test_takeover.taken_over(raftka_cluster) as taken,
        Rest(taken) as rest,
        pytest.raises(FOUND),
    ):
        test(rest, raftka_cluster)


OF_CONTRACTS: dict[str, tuple[object, str, Any, Callable[[Rest], None]]] = {
    "a request without a level sets none": (
        api,
        "read_changes",
        lambda asked: {"compatibilityLevel": str(asked.get("compatibility")).upper()},
        lambda rest: test_settings.test_settings_without_a_level_leave_the_level(
            rest, "/config", {}
        ),
    ),
    "rules are dropped": (
        requests,
        "read_rule_set",
        lambda found: "",
        test_settings.test_a_contract_is_stored_and_given_back_everywhere,
    ),
    "schemas with other rules are one": (
        registry.Registry,
        "_same",
        lambda self, body, versions, subject: next(
            (each for each in reversed(versions) if each.body.text == body.text), None
        ),
        test_settings.test_a_contract_is_part_of_a_versions_identity,
    ),
    "a new version loses the rules": (
        registry.Registry,
        "_filled",
        lambda self, subject, body, *_, **__: body,
        test_settings.test_a_new_version_keeps_the_contract_unless_it_has_its_own,
    ),
    "unknown parameters are passed over": (
        requests.Request,
        "check_query",
        lambda self, known: None,
        lambda rest: test_settings.test_parameters_that_a_request_has_not_are_refused_by_name(
            rest, "DELETE", "/subjects/t?permanent=1", "permanent"
        ),
    ),
    "settings are changed where all is only read": (
        changes,
        "check_writable",
        lambda state, scope: "READWRITE",
        lambda rest: test_modes.test_settings_of_a_subject_that_is_only_read_are_not_changed(
            rest, "/mode/t"
        ),
    ),
    "an import is judged": (
        registry.Registry,
        "_imported",
        lambda self, subject, asked, versions, version: registry.Registry._body(
            self, asked, subject, new=True
        ),
        lambda rest: test_modes.test_what_another_registry_has_taken_is_imported(
            rest, "JSON", '{"type":"nonsense"}', 200
        ),
    ),
}


@pytest.mark.parametrize("bug", OF_CONTRACTS)
def test_bugs_in_contracts_and_modes_are_found(
    raftka_registry: RegistryServer, bug: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    where, name, planted, test = OF_CONTRACTS[bug]
    monkeypatch.setattr(where, name, planted)

    with Rest(raftka_registry) as rest, pytest.raises(FOUND):
        test(rest)


OF_CONTEXTS: dict[str, tuple[object, str, Any, Callable[[Rest], None]]] = {
    "ids are counted together": (
        state,
        "context_of",
        lambda subject: ".",
        test_contexts.test_ids_and_versions_are_a_contexts_own,
    ),
    "references are of the context without a name": (
        state,
        "within",
        lambda context, subject: subject,
        test_contexts.test_references_are_of_the_same_context_unless_they_name_another,
    ),
    "a context's level is that without a name": (
        state.State,
        "level",
        lambda self, subject: (self.settings.get(subject) or self.settings.get(None) or {}).get(
            "compatibilityLevel", "BACKWARD"
        ),
        test_contexts.test_a_level_is_a_subjects_then_a_contexts_then_that_of_all,
    ),
    "an id is one of the context in the URL alone": (
        state.State,
        "find_context",
        lambda self, number, subject: Name.of(subject).context,
        test_contexts.test_an_id_with_a_subject_is_looked_for_in_all_contexts,
    ),
}


@pytest.mark.parametrize("bug", OF_CONTEXTS)
def test_bugs_in_contexts_are_found(
    raftka_cluster: Cluster,
    raftka_registry: RegistryServer,
    bug: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As an instance sees them that reads the topic from its beginning."""
    where, name, planted, test = OF_CONTEXTS[bug]
    monkeypatch.setattr(where, name, planted)

    with Rest(raftka_registry) as rest, pytest.raises(FOUND):
        test(rest)


OF_ACCESS: dict[str, tuple[str, Any, Callable[[RegistryServer], None]]] = {
    "any password of a known user": (
        "_current",
        lambda self, user, digest: user.name in self._known,
        lambda server: test_access.test_wrong_passwords(server, "admin", "wrong"),
    ),
    "who is hidden a topic may create it": (
        "_may_create",
        lambda *_: True,
        lambda server: test_access.test_acls_of_the_topic_decide(server, *test_access.CASES[5]),
    ),
    "who is logged in may do all": (
        "may",
        lambda *_: True,
        lambda server: test_access.test_acls_of_the_topic_decide(server, *test_access.CASES[0]),
    ),
}


@pytest.mark.parametrize("bug", OF_ACCESS)
def test_bugs_in_rights_are_found(
    secured_registry: RegistryServer, bug: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    name, planted, test = OF_ACCESS[bug]
    monkeypatch.setattr(BrokerAccess, name, planted)

    with pytest.raises(FOUND):
        test(secured_registry)
