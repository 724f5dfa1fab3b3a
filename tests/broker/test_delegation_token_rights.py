"""Delegation tokens and rights: tokens for others, who sees them, what their sessions may do, and
clusters without them.
"""

from raftka.metadata.image import MetadataImage
from raftka.security import acls
from raftka.security.acls import Acl
from raftka.security.delegation_tokens import password_of
from raftka.wire.errors import Code
from raftka.wire.messages.delegation_tokens import (
    DESCRIBE_DELEGATION_TOKEN,
)
from raftka.wire.messages.metadata import METADATA
from tests.broker.rights import (
    WITH_ACLS,
    admin_of,
    create_acls,
    delete_acl,
    pat,
    topic_acl,
    written,
)
from tests.broker.sasl import works
from tests.broker.stage import Stage
from tests.broker.tokens import NOBODYS, SECURE, create, expire, renew, seen, with_token


def test_right_to_make_tokens_for_a_user() -> None:
    acl = Acl(acls.USER, "User:bob", acls.LITERAL, "User:pat", "*", acls.CREATE_TOKENS, acls.ALLOW)
    with Stage(**SECURE) as stage:
        assert create_acls(stage, acl) == [0]
        token = create(pat(stage), owner="bob")
        assert (token.error_code, token.principal_name, token.token_requester_principal_name) == (
            0,
            "bob",
            "pat",
        )
        wire = with_token(stage, token)
        assert works(wire)
        assert stage.server_side().session.principal == "User:bob"
        assert renew(pat(stage), bytes(token.hmac))[0] == Code.DELEGATION_TOKEN_OWNER_MISMATCH, (
            "neither owner nor renewer"
        )
        assert seen(pat(stage), everybodys=True) == [token.token_id], "what it has asked for"
        assert delete_acl(stage, acl) == 1
        assert (
            create(pat(stage), owner="bob").error_code == Code.DELEGATION_TOKEN_AUTHORIZATION_FAILED
        )


def test_session_of_a_token_has_the_present_rights_of_its_owner() -> None:
    with Stage(**SECURE) as stage:
        assert create_acls(stage, topic_acl(acls.WRITE), topic_acl(acls.CREATE)) == [0, 0]
        assert works(pat(stage))
        wire = with_token(stage, create(pat(stage)))
        wire.ask(
            METADATA,
            METADATA.request(
                topics=[METADATA.request.topics(name="t")], allow_auto_topic_creation=True
            ),
        )
        stage.wait(lambda: stage.nodes[1].image.topic_named("t") is not None)
        stage.wait(lambda: written(wire) == 0)
        assert delete_acl(stage, topic_acl(acls.WRITE)) == 1
        assert written(wire) == Code.TOPIC_AUTHORIZATION_FAILED


def test_tokens_are_seen_by_those_who_may() -> None:
    with Stage(**SECURE) as stage:
        first, second = create(admin_of(stage)).token_id, create(admin_of(stage), "pat").token_id
        assert seen(admin_of(stage), everybodys=True) == [first, second]
        assert seen(admin_of(stage)) == []
        assert seen(pat(stage), everybodys=True) == seen(pat(stage), "node") == [second]
        assert seen(pat(stage), "pat") == []
        one = Acl(
            acls.DELEGATION_TOKEN, first, acls.LITERAL, "User:pat", "*", acls.DESCRIBE, acls.ALLOW
        )
        assert create_acls(stage, one) == [0]
        assert seen(pat(stage), "node") == [first, second]
        assert delete_acl(stage, one) == 1
        assert create_acls(
            stage,
            Acl(
                acls.USER,
                "User:node",
                acls.LITERAL,
                "User:pat",
                "*",
                acls.DESCRIBE_TOKENS,
                acls.ALLOW,
            ),
        ) == [0]
        assert seen(pat(stage), "node") == [first, second]


def test_tokens_outlive_a_restart_and_a_snapshot_and_no_log_has_them() -> None:
    with Stage(**SECURE) as stage:
        token = create(pat(stage))
        image = stage.nodes[1].image
        again = MetadataImage.from_snapshot(image.to_snapshot())
        assert (again.tokens, again.token_ids, again.secret) == (
            image.tokens,
            image.token_ids,
            image.secret,
        )
        stage.kill(1)
        stage.start(1)
        stage.wait(stage.nodes[1].ready.is_set)
        assert works(with_token(stage, token))
        log = stage.logs[1].getvalue()
        assert bytes(token.hmac).hex() not in log
        assert password_of(bytes(token.hmac)) not in log


def test_without_a_key_there_are_no_tokens() -> None:
    with Stage(**WITH_ACLS) as stage:
        wire = pat(stage)
        disabled = Code.DELEGATION_TOKEN_AUTH_DISABLED
        assert create(wire).error_code == disabled
        assert renew(wire, NOBODYS) == expire(wire, NOBODYS) == (disabled, 0)
        assert (
            wire.ask(
                DESCRIBE_DELEGATION_TOKEN, DESCRIBE_DELEGATION_TOKEN.request(owners=None)
            ).error_code
            == disabled
        )


def test_client_that_nobody_knows_gets_no_token() -> None:
    with Stage(delegation_token_secret_key="k") as stage:
        assert create(stage.wire()).error_code == Code.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
