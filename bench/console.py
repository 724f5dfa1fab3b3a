"""The console in front of a large cluster: the list of topics on the server, cold and warm, and in
a browser; and what five browsers that watch it cost a producer.
"""

import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager

from bench.load import BenchFailed, load
from bench.systems import Raftka, cpu_seconds
from raftka.client.blocking.client import Client
from raftka.client.blocking.connection import addresses_of
from raftka.client.blocking.member import commit_request
from raftka.client.blocking.topics import create_topics
from raftka.wire.errors import Code
from raftka.wire.messages.offsets import OFFSET_COMMIT
from tests.kit.browser import WHY_NOT, find_chromium, launch_browser
from tests.kit.console import Api, Events

TOPICS, PARTITIONS, GROUPS = 10_000, 4, 5_000
CREATED_AT_ONCE = 100  # topics of a request: the controller decides in short turns
BY_NAME = 9  # the last version of OffsetCommit with names of topics
WATCHERS = 5
WATCHED_S = 20.0  # at least: the view asks for everything again some times
RATE = 500
PRODUCE = f"produce -b 1 -a -1 -r {RATE}"
LOADED = "loaded"
PATIENCE_S = 300.0
ORDERS = ("name", "-name", "-bytes", "-rate", "-messages", "-lag", "-groups", "partitions")
SEARCHES = ("", "99", "topic 1", "nothing")
SERVE = """
import os, sys, threading
from raftka.client.blocking.connection import addresses_of
from raftka.console.process import NICENESS
from raftka.console.server import ConsoleServer
from raftka.console.settings import ConsoleSettings
os.nice(NICENESS)  # as the console of a node
with ConsoleServer(ConsoleSettings(addresses_of(sys.argv[1]), port=0)) as console:
    print(console.url, flush=True)
    threading.Event().wait()
"""


def rows(runs: int, seconds: float) -> Iterator[str]:
    yield (
        f"| console, three nodes, {TOPICS:,} topics, {TOPICS * PARTITIONS:,} partitions, "
        f"{GROUPS:,} groups | median | worst |"
    )
    yield "|---|---|---|"
    with ExitStack() as stack:
        system = stack.enter_context(Raftka(3))
        system.start()
        system.wait_ready()
        targets = system.create_topic(LOADED, 3)
        bootstrap = ",".join(f"{host}:{port}" for host, port in system.addresses)
        fill(bootstrap)
        cold, whole, spent = [], [], []
        for _ in range(runs):
            with serving(bootstrap) as (url, process):
                pids = [process.pid, *system.pids]
                before = sum(map(cpu_seconds, pids))
                first, complete = first_page(Api(url))
                cold.append(first)
                whole.append(complete)
                spent.append(1000 * (sum(map(cpu_seconds, pids)) - before))
        yield _row("first list of a console that has just started, ms", cold, 0)
        yield _row("until its sizes, rates, lags are there too, ms", whole, 0)
        yield _row("CPU of console and nodes until then, ms", spent, 0)
        url, process = stack.enter_context(serving(bootstrap))
        api = Api(url)
        first_page(api)
        yield _row("GET /api/topics, any order and search, warm, ms", warm(api, runs), 1)
        if (program := find_chromium()) is None:
            yield f"| first page in Chromium: {WHY_NOT} | | |"
        else:
            yield _row("first page in Chromium, ms", in_browser(program, url, runs), 0)
        yield from watched(system, targets, url, process, runs, seconds)


def _row(title: str, figures: Sequence[float], digits: int) -> str:
    median, worst = statistics.median(figures), max(figures)
    return f"| {title} | **{median:,.{digits}f}** | {worst:,.{digits}f} |"


def fill(bootstrap: str) -> None:
    """Create the topics, and commit an offset of each partition of a topic for each group."""
    names = [f"topic-{number:05}" for number in range(TOPICS)]
    with Client(addresses_of(bootstrap), "bench", PATIENCE_S, answer_s=PATIENCE_S) as client:
        for at in range(0, TOPICS, CREATED_AT_ONCE):
            for row in create_topics(client, names[at : at + CREATED_AT_ONCE], PARTITIONS, 1, {}):
                if row.error_code not in (Code.NONE, Code.TOPIC_ALREADY_EXISTS):  # sent twice
                    raise BenchFailed(f"{row.name}: {row.error_message}")
        for number in range(GROUPS):
            group = f"group-{number:05}"
            offsets = {(names[number], index): 0 for index in range(PARTITIONS)}
            commit = commit_request(group, offsets)
            answer = client.ask_coordinator(group, OFFSET_COMMIT, commit, BY_NAME)
            if any(each.error_code for topic in answer.topics for each in topic.partitions):
                raise BenchFailed(f"{group} has not committed: {answer}")


@contextmanager
def serving(bootstrap: str) -> Iterator[tuple[str, "subprocess.Popen[str]"]]:
    """A console as a process; its URL."""
    command = [sys.executable, "-c", SERVE, bootstrap]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield process.stdout.readline().strip(), process
        finally:
            process.kill()


def first_page(api: Api) -> tuple[float, float]:
    """Milliseconds to the first list, and until nothing of it is pending."""
    began = time.monotonic()
    answer = api.get("/api/topics")
    first = time.monotonic() - began
    while answer["pending"] or answer["missing"]:
        if time.monotonic() > began + PATIENCE_S:
            raise BenchFailed(f"pending: {answer['pending']}, missing: {answer['missing']}")
        time.sleep(0.05)
        answer = api.get("/api/topics")
    if answer["of_all"] < TOPICS:
        raise BenchFailed(f"the list has {answer['of_all']} topics")
    return 1000 * first, 1000 * (time.monotonic() - began)


def warm(api: Api, runs: int) -> list[float]:
    found = []
    for _ in range(runs):
        for sort in ORDERS:
            for search in SEARCHES:
                began = time.monotonic()
                api.get("/api/topics", sort=sort, search=search)
                found.append(1000 * (time.monotonic() - began))
    return found


def in_browser(program: str, url: str, runs: int) -> list[float]:
    """Milliseconds from the address to the rows of the list; nothing is cached in the browser."""
    found = []
    with launch_browser(program) as browser:
        for _ in range(runs):
            page = browser.open_page()
            began = time.monotonic()
            page.goto(f"{url}#/topics")
            page.wait_for_text("topic-00000")
            found.append(1000 * (time.monotonic() - began))
            browser.close_page(page)
    return found


def watched(
    system: Raftka,
    targets: list[str],
    url: str,
    process: "subprocess.Popen[str]",
    runs: int,
    seconds: float,
) -> Iterator[str]:
    """A producer's p99 while nobody looks, and while browsers watch, in turns."""
    calm, busy, cpu = [], [], []
    seconds = max(seconds, WATCHED_S)
    load(PRODUCE, targets, system.pids, LOADED, seconds)  # warms up
    for _ in range(runs):
        calm.append(load(PRODUCE, targets, system.pids, LOADED, seconds)["p99us"] / 1000)
        with watching(url):
            before, began = cpu_seconds(process.pid), time.monotonic()
            busy.append(load(PRODUCE, targets, system.pids, LOADED, seconds)["p99us"] / 1000)
            passed = time.monotonic() - began
            cpu.append(100 * (cpu_seconds(process.pid) - before) / passed)
    yield _row(f"{RATE} flushed records/s: p99 ms", calm, 1)
    yield _row(f"the same while {WATCHERS} pages watch the list: p99 ms", busy, 1)
    yield _row("the console meanwhile: % of a core", cpu, 0)


@contextmanager
def watching(url: str) -> Iterator[None]:
    """Pages of five browsers that stay live, each with an order of its own."""
    api = Api(url)
    streams = [api.stream("/api/topics", {"sort": sort}) for sort in ORDERS[:WATCHERS]]
    threads = [threading.Thread(target=_drain, args=(each,), daemon=True) for each in streams]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        for each in streams:
            each.close()


def _drain(stream: Events) -> None:
    try:
        for _ in stream:
            pass
    except (OSError, ValueError, AttributeError):
        pass  # the connection was closed under http.client
