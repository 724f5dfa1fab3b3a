"""Requests and the answers that Apache Kafka gave to them, without security."""

from pathlib import Path

from raftka.broker.network.dispatch import HANDLERS
from tests.broker.golden import recorded

RECORDED = recorded(Path(__file__).parent / "golden.jsonl")
# what has no handler yet is not announced either
EXCHANGES = [exchange for exchange in RECORDED if exchange.key in HANDLERS]
OF_STREAMS = [
    exchange
    for exchange in recorded(Path(__file__).parent / "golden_streams.jsonl")
    if exchange.key in HANDLERS
]
OF_4_4 = recorded(Path(__file__).parent / "golden_44.jsonl")
BY_NUMBER = {exchange.n: exchange for exchange in EXCHANGES}
