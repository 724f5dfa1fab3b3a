"""A question that no user has asked: it pays what the first one of a session costs, which is
seconds for classes, code and Python's workers.
"""

import threading
from collections.abc import Callable, Sequence

from raftka.pipeline.topics.brokers import Brokers
from raftka.pipeline.topics.options import EARLIEST, LATEST
from raftka.sql.answers import Answer
from raftka.sql.catalog import Catalog
from raftka.sql.language.types import quoted

MOST_TOPICS = 10  # that are asked whether they have records
LONGEST_S = 20.0  # for its row, which may be that of an open transaction


def ask_one_row(brokers: Brokers, catalog: Catalog, execute: Callable[[str], Answer]) -> None:
    """Read a row as it comes, of the first stream or topic that has any. Raises StatementError,
    PipelineError.
    """
    name = _with_records(brokers, catalog)
    if name is None:
        list(execute("SELECT 1").rows)
        return
    answer = execute(f"SELECT * FROM {quoted(name)} EMIT CHANGES FROM BEGINNING LIMIT 1")
    ending = threading.Timer(LONGEST_S, answer.close)
    ending.start()
    try:
        next(iter(answer.rows), None)
    finally:
        ending.cancel()
        answer.close()


def _with_records(brokers: Brokers, catalog: Catalog) -> str | None:
    """Return the name of a stream or a topic."""
    topics = {each.name: each.topic for each in catalog.streams("STREAM")}
    topics |= {name: name for name in brokers.names()}
    found = brokers.topics(list(topics.values())[:MOST_TOPICS])
    for name, topic in topics.items():
        if topic in found and _has_records(brokers, topic, found[topic].partitions):
            return name
    return None


def _has_records(brokers: Brokers, topic: str, partitions: Sequence[int]) -> bool:
    wheres = [(topic, each) for each in partitions]
    first, end = (brokers.offsets(dict.fromkeys(wheres, at)) for at in (EARLIEST, LATEST))
    return first != end
