"""Quix Streams as a program for the tests: copies a topic exactly once, until it is killed.
Arguments: servers, topic, target.
"""

import sys

from quixstreams import Application  # type: ignore[import-not-found]

servers, source, target = sys.argv[1:]
application = Application(
    broker_address=servers,
    consumer_group=f"{source}-copy",
    auto_offset_reset="earliest",
    processing_guarantee="exactly-once",
    auto_create_topics=False,
    commit_every=10,
    loglevel="WARNING",
)
numbers = application.topic(source, value_deserializer="str", key_deserializer="str")
copied = application.topic(target, value_serializer="str", key_serializer="str")
application.dataframe(numbers).to_topic(copied)
application.run()
