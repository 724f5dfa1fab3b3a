"""Recorded exchanges with delegation tokens."""

from pathlib import Path

from tests.broker.golden import recorded
from tests.broker.tokens import SECURE

EXCHANGES = recorded(Path(__file__).parent / "golden_tokens.jsonl")
BY_NUMBER = {exchange.n: exchange for exchange in EXCHANGES}
USERS = "".join(f' user_{name}="{name}-secret"' for name in ("pat", "admin", "alice", "bob"))
LINE = (
    'org.apache.kafka.common.security.plain.PlainLoginModule required username="node" '
    f'password="n-secret" user_node="n-secret"{USERS};'
)
SETTINGS = {
    **SECURE,
    "listener.name.plaintext.plain.sasl.jaas.config": LINE,
    "super_users": "User:node;User:admin",
}
