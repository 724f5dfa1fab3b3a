"""Topics as sources and sinks of Spark. The broker does not know of it; its libraries come with the
extra `raftka[pipeline]`.

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
