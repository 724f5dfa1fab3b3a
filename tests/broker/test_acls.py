"""ACLs on simulated nodes: what a user may do, and that a change counts for connections, sessions
and parked requests at once.
"""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from raftka.broker.handlers import acls as handler
from raftka.broker.network.access.acl_authorizer import AclAuthorizer
from raftka.limits import ACLS, ACLS_OF_REQUEST, DECISIONS_OF_SESSION, FILTERED_ACLS
from raftka.metadata.configs.settings import SettingError
from raftka.metadata.controller import acls as controller
from raftka.metadata.image import MetadataImage
from raftka.security import acls
from raftka.security.acls import Acl
from raftka.wire.errors import Code
from raftka.wire.messages.acls import DELETE_ACLS, DESCRIBE_ACLS, DescribeAclsResponse
from raftka.wire.messages.fetch import FETCH
from raftka.wire.messages.metadata import METADATA
from raftka.wire.messages.producer_ids import INIT_PRODUCER_ID
from raftka.wire.messages.topics import DELETE_TOPICS
from tests.broker.requests import fetch, fetched
from tests.broker.rights import (
    WITH_ACLS,
    admin_of,
    create_acls,
    delete_acl,
    pat,
    topic_acl,
    written,
)
from tests.broker.sasl import SECURE, log_in, logged_in
from tests.broker.stage import Stage, Wire


@pytest.fixture
def stage() -> Iterator[Stage]:
    with Stage(**WITH_ACLS) as stage:
        stage.wire = lambda node_id=1: admin_of(stage, node_id)  # type: ignore[method-assign]
        stage.create("t")
        yield stage


def read(wire: Wire) -> int:
    return fetched(wire.ask(FETCH, fetch("t", 0), 12)).error_code


def described(wire: Wire, **filters: object) -> DescribeAclsResponse:
    given: dict[str, object] = {
        "resource_type_filter": 1,
        "pattern_type_filter": 1,
        "operation": 1,
        "permission_type": 1,
        **filters,
    }
    return wire.ask(DESCRIBE_ACLS, DESCRIBE_ACLS.request(**given))  # type: ignore[arg-type]


def test_user_without_acl_is_refused_and_learns_nothing(stage: Stage) -> None:
    wire = pat(stage)
    assert (written(wire), read(wire)) == (
        Code.TOPIC_AUTHORIZATION_FAILED,
        Code.TOPIC_AUTHORIZATION_FAILED,
    )
    for name in ("t", "not-there"):
        (topic,) = wire.ask(
            METADATA, METADATA.request(topics=[METADATA.request.topics(name=name)])
        ).topics
        assert (topic.error_code, topic.partitions) == (Code.TOPIC_AUTHORIZATION_FAILED, [])
    assert wire.ask(METADATA, METADATA.request(topics=None)).topics == []
    assert stage.events("authorization_refused")[0]["principal"] == "User:pat"


def test_a_network_is_allowed_and_denied(stage: Stage) -> None:
    """By the number of the client's address; a filter compares hosts as texts (Kafka 4.4.0)."""
    whole, part = (topic_acl(acls.WRITE, host=host) for host in ("10.0.0.0/8", "10.1.0.0/16"))
    assert create_acls(stage, whole, part._replace(permission=acls.DENY)) == [0, 0]
    codes = {}
    for address in ("10.2.0.1", "10.1.2.3", "11.0.0.1"):
        wire = Wire(stage.world, stage.world.node(address), "n1")
        assert log_in(wire, "PLAIN", "pat", "pat-secret").error_code == 0
        codes[address] = written(wire)

    refused = Code.TOPIC_AUTHORIZATION_FAILED
    assert codes == {"10.2.0.1": 0, "10.1.2.3": refused, "11.0.0.1": refused}
    assert described(stage.wire(), host_filter="10.2.0.1").resources == []
    assert len(described(stage.wire(), host_filter="10.0.0.0/8").resources) == 1
    assert create_acls(stage, topic_acl(acls.WRITE, host="10.0.0.0/33")) == [Code.INVALID_REQUEST]


def test_change_counts_for_the_next_request_of_a_connection(stage: Stage) -> None:
    wire = pat(stage)
    for _ in range(2):
        assert create_acls(stage, topic_acl(acls.WRITE)) == [0]
        assert [written(wire) for _ in range(3)] == [0, 0, 0]
        assert delete_acl(stage, topic_acl(acls.WRITE)) == 1
        assert written(wire) == Code.TOPIC_AUTHORIZATION_FAILED


def test_denial_wins_and_a_super_user_passes_it(stage: Stage) -> None:
    create_acls(stage, topic_acl(acls.ALL), topic_acl(acls.WRITE, acls.DENY, name="*"))
    assert (written(pat(stage)), read(pat(stage))) == (Code.TOPIC_AUTHORIZATION_FAILED, 0)
    assert written(admin_of(stage)) == 0


def test_parked_fetch_gets_no_record_after_its_right_is_revoked(stage: Stage) -> None:
    create_acls(stage, topic_acl(acls.READ))
    wire = pat(stage)
    assert read(wire) == 0
    wire.request(FETCH, fetch("t", 0, max_wait_ms=30_000, min_bytes=1), 12)
    stage.world.run(stage.world.now + 0.2)
    delete_acl(stage, topic_acl(acls.READ))
    assert written(admin_of(stage)) == 0
    parked = fetched(wire.answer(FETCH, 12))
    assert not parked.records
    assert read(wire) == Code.TOPIC_AUTHORIZATION_FAILED


def test_fetch_session_tells_that_a_right_is_revoked(stage: Stage) -> None:
    create_acls(stage, topic_acl(acls.READ))
    wire = pat(stage)
    row = FETCH.request
    first = wire.ask(
        FETCH, row(session_id=0, session_epoch=0, max_wait_ms=0, topics=fetch("t", 0).topics), 12
    )
    assert first.session_id
    assert not first.responses[0].partitions[0].error_code
    delete_acl(stage, topic_acl(acls.READ))
    written(admin_of(stage))
    second = wire.ask(FETCH, row(session_id=first.session_id, session_epoch=1, max_wait_ms=0), 12)
    assert second.responses[0].partitions[0].error_code == Code.TOPIC_AUTHORIZATION_FAILED


def test_bad_acls_are_refused_and_the_others_made(stage: Stage) -> None:
    good = topic_acl(acls.READ)
    codes = create_acls(
        stage,
        good,
        good,
        good._replace(name=""),
        good._replace(principal="pat"),
        good._replace(resource_type=acls.CLUSTER, name="other"),
        good._replace(pattern=acls.MATCH),
        good._replace(operation=1),
        good._replace(operation=99),
        good._replace(permission=1),
        good._replace(resource_type=1),
    )
    assert codes == [0, 0, *[Code.INVALID_REQUEST] * 8]
    assert list(stage.nodes[1].image.acls) == [good]


def test_acls_are_described_by_what_they_reach(stage: Stage) -> None:
    create_acls(
        stage,
        topic_acl(acls.READ),
        topic_acl(acls.WRITE, name="*"),
        topic_acl(acls.ALL, name="tt", pattern=acls.PREFIXED),
    )
    admin = admin_of(stage)

    def names(name: str | None, pattern: int) -> list[str]:
        return sorted(
            each.resource_name
            for each in described(
                admin, resource_name_filter=name, pattern_type_filter=pattern
            ).resources
        )

    assert names(None, 1) == ["*", "t", "tt"]
    assert names("t", acls.MATCH) == ["*", "t"]
    assert names("ttt", acls.MATCH) == ["*", "tt"]
    assert names("tt", acls.LITERAL) == []
    assert described(pat(stage)).error_code == Code.CLUSTER_AUTHORIZATION_FAILED


def test_idempotent_producer_needs_a_topic_that_it_may_write(stage: Stage) -> None:
    row = INIT_PRODUCER_ID.request(transactional_id=None, transaction_timeout_ms=1000)
    wire = pat(stage)
    assert wire.ask(INIT_PRODUCER_ID, row).error_code == Code.CLUSTER_AUTHORIZATION_FAILED
    create_acls(stage, topic_acl(acls.WRITE, name="later-", pattern=acls.PREFIXED))
    assert wire.ask(INIT_PRODUCER_ID, row).error_code == 0


def test_right_to_delete_on_the_cluster_is_enough(stage: Stage) -> None:
    request = DELETE_TOPICS.request
    row, wire = request(topics=[request.topics(name="t")], timeout_ms=1000), pat(stage)
    assert wire.ask(DELETE_TOPICS, row).responses[0].error_code == Code.TOPIC_AUTHORIZATION_FAILED
    create_acls(
        stage,
        Acl(
            acls.CLUSTER, acls.CLUSTER_NAME, acls.LITERAL, "User:pat", "*", acls.DELETE, acls.ALLOW
        ),
    )
    assert wire.ask(DELETE_TOPICS, row).responses[0].error_code == 0


def test_acls_outlive_a_snapshot_and_a_restart(stage: Stage) -> None:
    create_acls(stage, topic_acl(acls.WRITE))
    image = stage.nodes[1].image
    assert MetadataImage.from_snapshot(image.to_snapshot()).acls == image.acls
    stage.kill(1)
    stage.start(1)
    stage.wait(stage.nodes[1].ready.is_set)
    wire = pat(stage)
    assert (written(wire), read(wire)) == (0, Code.TOPIC_AUTHORIZATION_FAILED)


def test_decisions_of_a_session_are_bounded(stage: Stage) -> None:
    authorizer = stage.nodes[1].dispatcher.authorizer
    assert isinstance(authorizer, AclAuthorizer)
    pat(stage)
    session = stage.server_side().session
    for at in range(DECISIONS_OF_SESSION.value + 10):
        authorizer.allowed(session, "READ", ("topic", f"t{at}"))
    assert len(session.decisions) <= DECISIONS_OF_SESSION.value
    assert stage.counted(DECISIONS_OF_SESSION.metric) == 1


def test_without_authorizer_acls_are_refused() -> None:
    with Stage(**SECURE) as stage:
        admin = logged_in(stage, "PLAIN", "node", "n-secret")
        answer = described(admin)
        assert (answer.error_code, answer.error_message) == (
            Code.SECURITY_DISABLED,
            "No Authorizer is configured on the broker",
        )


def test_node_does_not_start_with_an_authorizer_that_is_not_there() -> None:
    with pytest.raises(SettingError, match=r"authorizer\.class\.name"):
        Stage(**{**SECURE, "authorizer_class_name": "com.example.Mine"})


def test_cluster_has_no_more_acls_than_the_limit(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    for place, limit in (
        (controller, ACLS),
        (controller, ACLS_OF_REQUEST),  # as for commands without a handler
        (handler, ACLS_OF_REQUEST),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(place, limit.name.upper(), replace(limit, value=1))
            assert (
                create_acls(stage, topic_acl(acls.READ), topic_acl(acls.WRITE))
                == [Code.INVALID_REQUEST] * 2
            )
        assert stage.counted(limit.metric) >= 1
    assert stage.counted(ACLS.metric) == 1
    assert stage.counted(ACLS_OF_REQUEST.metric) == 2
    assert create_acls(stage, topic_acl(acls.READ), topic_acl(acls.WRITE)) == [0, 0]
    monkeypatch.setattr(handler, "FILTERED_ACLS", replace(FILTERED_ACLS, value=1))
    row = DELETE_ACLS.request
    every = row.filters(
        resource_type_filter=1, pattern_type_filter=1, operation=1, permission_type=1
    )
    (refused,) = admin_of(stage).ask(DELETE_ACLS, row(filters=[every])).filter_results
    assert refused.error_code == Code.INVALID_REQUEST
    assert "filtered_acls" in (refused.error_message or "")
    assert stage.counted(FILTERED_ACLS.metric) == 1
    assert delete_acl(stage, topic_acl(acls.READ)) == 1


def test_what_is_allowed_is_told_when_that_is_asked_for() -> None:
    with Stage(**WITH_ACLS, raftka_log_level="debug") as stage:
        stage.wire = lambda node_id=1: admin_of(stage, node_id)  # type: ignore[method-assign]
        stage.create("t")
        assert create_acls(stage, topic_acl(acls.WRITE)) == [0]
        wire = pat(stage)
        assert (written(wire), written(wire)) == (0, 0)

        told = [
            each
            for each in stage.events("authorization_allowed")
            if each["principal"] == "User:pat"
        ]

        assert [(each["operation"], each["resource"], each["name"]) for each in told] == [
            ("WRITE", "topic", "t")
        ], "once"
