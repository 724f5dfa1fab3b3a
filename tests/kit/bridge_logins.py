"""Settings and logins of the bridge's users."""

from hashlib import md5
from typing import Any

from tests.broker.tls import AUTHORITY, NODE, wrapped
from tests.zookeeper_bridge.stage import BridgeStage, ZkClient
from zookeeper_bridge.protocol import jute
from zookeeper_bridge.protocol.opcodes import Op
from zookeeper_bridge.server.digest_md5 import REALM

SUPER = "super:lK75jTNcA+U9vtVEw5vB51mj/w4="  # super:secret
AUTHORIZER: dict[str, Any] = {
    "authorizer_class_name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super_users": "User:ANONYMOUS",
    "zookeeper_bridge_super_digest": SUPER,
}


def root(stage: BridgeStage) -> ZkClient:
    client = stage.client()
    client.request(Op.AUTH, jute.AUTH.encode((0, "digest", b"super:secret")), xid=-4)
    assert client.answer(-4) is not None
    return client


SECURE_PORT = 2182
SASL: dict[str, Any] = {
    "zookeeper_bridge_sasl_jaas_config": (
        'org.apache.zookeeper.server.auth.DigestLoginModule required user_bob="bobs secret" '
        'user_root="roots" user_kafka="kafkas";'
    ),
    "zookeeper_bridge_sasl_super_users": "root",
}
IN_THE_OPEN = SASL | {"zookeeper_bridge_sasl_plaintext_enable": "true"}
TLS: dict[str, Any] = {
    "zookeeper_bridge_secure_port": str(SECURE_PORT),
    "ssl_keystore_key": NODE.key,
    "ssl_keystore_certificate_chain": NODE.chain,
    "ssl_truststore_certificates": AUTHORITY.trusted,
}


def hexed(*parts: bytes) -> bytes:
    return md5(b":".join(parts)).hexdigest().encode()


def response(challenge: bytes, user: str, password: str, **changed: str) -> bytes:
    """Return a response as Java's and pure-sasl's clients make it (RFC 2831, 2.1.2)."""
    found = dict(each.split(b"=", 1) for each in challenge.split(b","))
    given = {
        "username": user,
        "realm": REALM,
        "nonce": found[b"nonce"].strip(b'"').decode(),
        "cnonce": "c" * 20,
        "nc": "00000001",
        "qop": "auth",
        "digest-uri": "zookeeper/zk-sasl-md5",
    } | {name.replace("_", "-"): value for name, value in changed.items()}
    first = md5(":".join((user, REALM, password)).encode("latin-1")).digest()
    key = hexed(
        first, *(given[each].encode() for each in ("nonce", "cnonce", "authzid") if each in given)
    )
    asked = hexed(b"AUTHENTICATE", given["digest-uri"].encode())
    given["response"] = (
        changed.get("response")
        or hexed(
            key, *(given[each].encode() for each in ("nonce", "nc", "cnonce", "qop")), asked
        ).decode()
    )
    bare = ("nc", "qop", "response")
    return (
        "charset=utf-8,"
        + ",".join(
            f"{name}={value}" if name in bare else f'{name}="{value}"'
            for name, value in given.items()
        )
    ).encode()


def sasl(client: ZkClient, token: bytes | None) -> tuple[int, bytes | None] | None:
    xid = client.request(Op.SASL, jute.BUFFER.encode(token))
    reply = client.answer(xid)
    return None if reply is None else (reply.error, jute.BUFFER.decode(reply.body))


def log_in(
    client: ZkClient, user: str, password: str, **changed: str
) -> tuple[int, bytes | None] | None:
    challenged = sasl(client, b"")
    assert challenged is not None
    return (
        sasl(client, response(challenged[1] or b"", user, password, **changed))
        if challenged[0] == 0
        else challenged
    )


def tls_client(stage: BridgeStage, own: Any = None) -> ZkClient:
    client = ZkClient(stage, port=SECURE_PORT, wrap=wrapped(own))
    client.connect()
    return client
