"""An acknowledgement leaves when the record is on three disks and not before: seen from outside, by
what three live processes ask of their kernel.

A hundred acks=all produces, one by one, each traced in all three nodes (strace, one machine's
clock). With the wait for the disk planted away the same check fails. Disks are slowed down in both
runs, so that it is not their speed that decides.
"""

import os
import re
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from raftka.cluster.ask import ClusterView, ask, call
from raftka.cluster.processes import Processes, running
from raftka.runtime.real.choice import LINUX, PORTABLE, VARIABLE
from raftka.wire.messages.api_versions import API_VERSIONS
from raftka.wire.messages.produce import PRODUCE
from raftka.wire.messages.topics import CREATE_TOPICS
from tests.broker.requests import batch, produce, produced
from tests.broker.talk import GUARD_S, Line

PRODUCES = 100
BATCH = batch(b"x" * 100)
CALLS = (
    "pwritev,pwritev2,pwrite64,write,writev,fdatasync,fsync,io_submit,io_getevents,sendto,sendmsg"
)
CALL = re.compile(
    r"(?P<tid>\d+) +(?P<at>[\d.]+) (?P<name>\w+)\((?P<fd>\d+)<(?P<what>.*?)>(?:[,)]| "
    r"<unfinished)(?P<rest>.*)"
)
RESUMED = re.compile(
    r"(?P<tid>\d+) +(?P<at>[\d.]+) <\.\.\. (?P<name>\w+) resumed>.*\) = (?P<result>-?\d+)"
)
# an asynchronous fdatasync
SUBMITTED = re.compile(
    r"\{aio_data=(?P<number>\w+), aio_lio_opcode=IOCB_CMD_FDSYNC, aio_fildes=\d+<(?P<what>.*?)>"
)
DONE = re.compile(r"\{data=(?P<number>\w+), obj=\w+, res=(?P<result>-?\d+)")
ENDED = re.compile(r"\) += (?P<result>-?\d+).*<(?P<took>[\d.]+)>$")

SLOW_DISK = """
import os, threading, time
from raftka.runtime.real import flushes
LATER_S = 0.02  # it is known, from the kernel and from threads
def ready(self, events):
    os.eventfd_read(self.kernel.eventfd)
    threading.Timer(LATER_S, self._post, [lambda: self._reap(wait=False)]).start()
flushes.Flusher.ready = ready
_sync_files = flushes.sync_files
def sync_files(fds, paths=()):
    error = _sync_files(fds, paths)
    time.sleep(LATER_S)
    return error
flushes.sync_files = sync_files
"""
NO_WAIT = """
from raftka.broker.replica.partition import Partition
_flush = Partition.flush
def flush(self):
    _flush(self)
    self._durable(self.log.written_offset)  # written counts as flushed, here and at the followers
Partition.flush = flush
"""


class Call(NamedTuple):
    name: str
    what: str  # the file's path, or both ends of the connection
    begin: float
    end: float
    result: int


def why_not() -> str | None:
    """Return the reason why nothing can be traced here."""
    if shutil.which("strace") is None:
        return "there is no strace"
    with subprocess.Popen(["sleep", "60"]) as child:
        try:
            tracer = subprocess.Popen(
                ["strace", "-p", str(child.pid)], stderr=subprocess.PIPE, text=True
            )
            assert tracer.stderr is not None
            said = tracer.stderr.readline()
            tracer.terminate()
            tracer.communicate()
        finally:
            child.kill()
    return None if "attached" in said else f"strace may not trace: {said.strip()}"


@pytest.fixture(scope="module")
def _may_trace() -> None:
    if reason := why_not():
        print(f"not run: {reason}")
        pytest.skip(reason)


@contextmanager
def traced(pid: int, output: Path) -> Iterator[None]:
    """All threads of the process, also those to come, while the block runs."""
    command = [
        "strace",
        "-f",
        "-v",
        "-ttt",
        "-T",
        "-yy",
        "-s",
        "0",
        "-e",
        f"trace={CALLS}",
        "-o",
        str(output),
        "-p",
        str(pid),
    ]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as tracer:
        assert tracer.stderr is not None
        assert "attached" in tracer.stderr.readline()
        try:
            yield
        finally:
            tracer.terminate()
            tracer.communicate(timeout=GUARD_S)


def calls_of(output: Path) -> list[Call]:
    found: list[Call] = []
    unfinished: dict[str, re.Match[str]] = {}
    flushing: dict[str, tuple[float, str]] = {}  # by number: since when, which file
    for line in output.read_text(encoding="utf-8", errors="replace").splitlines():
        for flush in SUBMITTED.finditer(line):
            flushing[flush["number"]] = (float(line.split()[1]), flush["what"])
        for flush in DONE.finditer(line):
            begun_flush = flushing.pop(flush["number"], None)
            if begun_flush is not None:  # else it began before the trace
                since, what = begun_flush
                found.append(
                    Call("fdatasync", what, since, float(line.split()[1]), int(flush["result"]))
                )
        if (resumed := RESUMED.match(line)) is not None:
            begun = unfinished.pop(resumed["tid"], None)
            if begun is not None:
                found.append(
                    Call(
                        begun["name"],
                        begun["what"],
                        float(begun["at"]),
                        float(resumed["at"]),
                        int(resumed["result"]),
                    )
                )
        elif (begun := CALL.match(line)) is not None:
            if (ended := ENDED.search(line)) is not None:
                at = float(begun["at"])
                found.append(
                    Call(
                        begun["name"],
                        begun["what"],
                        at,
                        at + float(ended["took"]),
                        int(ended["result"]),
                    )
                )
            elif line.endswith("<unfinished ...>"):
                unfinished[begun["tid"]] = begun
    return sorted(found, key=lambda call: call.begin)


def durable_at(calls: list[Call]) -> list[float]:
    """For each record in its order, when the first flush came back that began after the record was
    written.
    """
    of_log = [call for call in calls if call.what.endswith("/t-0/00000000000000000000.log")]
    written: list[float] = []  # by record, when its write came back
    size = 0
    for each in of_log:
        if "write" in each.name and each.result > 0:
            size += each.result
            written += [each.end] * (size // len(BATCH) - len(written))
    flushes = [call for call in of_log if "sync" in call.name and call.result == 0]
    return [
        min((flush.end for flush in flushes if flush.begin >= at), default=float("inf"))
        for at in written
    ]


def answered_at(calls: list[Call], client: tuple[str, int]) -> list[float]:
    return [
        call.begin
        for call in calls
        if call.name.startswith("send") and call.what.endswith(f"->{client[0]}:{client[1]}]")
    ]


def run(cluster: Processes, folder: Path) -> list[tuple[int, int]]:
    """Produce; (record, node) of each record whose answer left before it was on that node's
    disk.
    """
    request = CREATE_TOPICS.request
    call(
        cluster.addresses[0],
        CREATE_TOPICS,
        request(topics=[request.topics(name="t", num_partitions=1, replication_factor=3)]),
        timeout=GUARD_S,
    )
    view = _settled(cluster)
    with ExitStack() as stack:
        for node_id, node in cluster.nodes.items():
            stack.enter_context(traced(node.pid, folder / f"{node_id}.strace"))
        with Line(view.leader_address("t", 0)) as line:
            client = line.sock.getsockname()
            for offset in range(PRODUCES):
                answer = produced(line.ask(PRODUCE, produce("t", BATCH, timeout_ms=20_000), 12))
                assert (answer.error_code, answer.base_offset) == (0, offset)
            # so that strace has seen the end of each send before
            line.ask(API_VERSIONS, API_VERSIONS.request(), 0)
    (partition,) = _settled(cluster).of("t")
    assert partition.leader == view.of("t")[0].leader
    traces = {node_id: calls_of(folder / f"{node_id}.strace") for node_id in cluster.nodes}
    answers = answered_at(traces[partition.leader], client)[:PRODUCES]
    assert len(answers) == PRODUCES
    early = []
    for node_id in sorted(partition.isr):
        durable = durable_at(traces[node_id])
        assert len(durable) == PRODUCES, f"node {node_id} wrote {len(durable)} records"
        early += [
            (record, node_id) for record in range(PRODUCES) if answers[record] < durable[record]
        ]
    return early


def _settled(cluster: Processes) -> ClusterView:
    """All three replicas are in sync."""
    deadline = time.monotonic() + GUARD_S
    while True:
        view = ask(cluster.addresses[0], ["t"])
        if view.of("t") and len(view.of("t")[0].isr) == 3 and len(view.brokers) == 3:
            return view
        assert time.monotonic() < deadline


@contextmanager
def cluster_with(
    folder: Path, monkeypatch: pytest.MonkeyPatch, *customized: str
) -> Iterator[Processes]:
    """Three processes that run this Python before anything else."""
    (folder / "sitecustomize.py").write_text("".join(customized), encoding="utf-8")
    monkeypatch.setenv(
        "PYTHONPATH", os.pathsep.join([str(folder), *filter(None, [os.environ.get("PYTHONPATH")])])
    )
    with running(nodes=3) as cluster:
        yield cluster


@pytest.mark.usefixtures("_may_trace")
@pytest.mark.parametrize("kind", [LINUX, PORTABLE])
def test_no_answer_leaves_before_the_record_is_on_every_in_sync_disk(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, kind)
    with cluster_with(tmp_path, monkeypatch, SLOW_DISK) as cluster:
        assert run(cluster, tmp_path) == []


@pytest.mark.usefixtures("_may_trace")
@pytest.mark.parametrize("kind", [LINUX, PORTABLE])
def test_without_the_wait_the_same_check_fails(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, kind)
    with cluster_with(tmp_path, monkeypatch, SLOW_DISK, NO_WAIT) as cluster:
        early = run(cluster, tmp_path)

    assert {node_id for _, node_id in early} == {1, 2, 3}
