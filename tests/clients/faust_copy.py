"""Faust as a program for the tests: an agent copies a topic exactly once, until it is killed.
Arguments: servers, topic, target.
"""

import sys
from tempfile import mkdtemp
from typing import Any

import faust  # type: ignore[import-not-found]

servers, source, target = sys.argv[1:]
app = faust.App(
    f"{source}-copy",
    broker=f"kafka://{servers.replace(',', ';')}",
    processing_guarantee="exactly_once",
    topic_allow_declare=False,
    topic_disable_leader=True,
    datadir=mkdtemp(),
    web_enabled=False,
)
numbers = app.topic(source, value_type=bytes, value_serializer="raw")
copied = app.topic(target, value_type=bytes, value_serializer="raw")


@app.agent(numbers)  # type: ignore[untyped-decorator]
async def copy(stream: Any) -> None:
    async for number in stream:
        await copied.send(value=number)


faust.Worker(app, loglevel="warn").execute_from_commandline()
