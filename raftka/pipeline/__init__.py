"""Spark's way into topics and out of them. The broker knows nothing of it; what it needs beyond
raftka is the extra `raftka[pipeline]`.

    from raftka.pipeline import session

    session().read.format("raftka").option("kafka.bootstrap.servers",
    "localhost:9092").option("subscribe", "trucks").load().show()

docs/pipeline.md has the rest.
"""


def __getattr__(name: str) -> object:
    """Imported when asked for: the command line must not wait for Spark."""
    if name == "session":
        from raftka.pipeline.spark import session

        return session
    if name == "decode":
        from raftka.pipeline.topics.values import decode

        return decode
    raise AttributeError(name)
