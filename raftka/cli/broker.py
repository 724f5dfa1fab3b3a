"""`raftka broker start FILE`: one node in this process until SIGTERM. Imports only what a broker
needs: its memory is 36 MiB.

The first SIGTERM or SIGINT is a controlled shutdown, the second ends at once. Tells systemd (or
`cluster start`) when clients may come.
"""

import gc
import os
import resource
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from traceback import format_exception
from typing import Any

import trio

from raftka.broker.node import Node
from raftka.broker.refusal import REFUSALS, describe_error, first_of
from raftka.broker.telemetry.event_log import Events
from raftka.cluster.notices import notify
from raftka.cluster.pid_file import PidFile
from raftka.cluster.properties import parse
from raftka.cluster.secured.first_users import VARIABLE, from_text
from raftka.cluster.services import close_edges, open_edges
from raftka.cluster.services.payloads import open_judge
from raftka.metadata.configs.settings import NodeSettings
from raftka.metadata.records import ScramCredentialSet
from raftka.runtime.real.allocator import give_memory_back
from raftka.runtime.real.garbage import ShortCollections
from raftka.runtime.real.runtime import NodeFailed, open_runtime

FAILED = 1  # exit code
ENDS = (signal.SIGTERM, signal.SIGINT)


def start(file: str, ready: str = "", users: tuple[ScramCredentialSet, ...] = ()) -> int:
    """Run the node until SIGTERM and print `ready` when clients may come; returns the exit code.
    `users`: of the cluster, should it be formed now.
    """
    try:
        settings = NodeSettings.from_properties(parse(Path(file).read_text(encoding="utf-8")))
    except (OSError, ValueError) as error:
        return _refuse(file, error)
    return _run(
        settings,
        PidFile(Path(file).absolute().parent / "raftka.pid"),
        ready,
        users or from_text(os.environ.pop(VARIABLE, "")),
    )


def start_of_host(file: str, properties: dict[str, str]) -> int:
    """The same for one broker of the host that FILE describes, with the properties that were made
    for it.

    Another SIGTERM does not end it at once, SIGINT does: systemd may send one to all processes of a
    unit, and the supervisor sends its own.
    """
    settings = NodeSettings.from_properties(properties)
    pid_file = PidFile(Path(file).absolute().parent / f"raftka-{settings.node_id}.pid")
    return _run(settings, pid_file, "", from_text(os.environ.pop(VARIABLE, "")), (signal.SIGINT,))


def start_dev(port: int, data: Path | None) -> int:
    """Run one node without a properties file, for trying things out, until SIGTERM; returns the
    exit code. Its settings are those that `cluster start` plans. Without `data` it keeps everything
    in a temporary folder and removes that at the end.
    """
    from raftka.cluster.plan import PlanError, plan_cluster, ports_from
    from raftka.cluster.ports import HeldPorts, check_free

    folder = data or Path(tempfile.mkdtemp(prefix="raftka-dev-"))
    held = HeldPorts(0 if port else 2)
    try:
        check_free(1, port, None, metrics=False, option="--port")
        (plan,) = plan_cluster(folder, ports_from(port, 1) if port else held.pairs())
        plan.write()
        kept = "it is removed when the node ends" if data is None else "it stays"
        print(f"raftka: the data is in {folder}, {kept}", file=sys.stderr, flush=True)
        return start(str(plan.properties_file), f"bootstrap.servers={plan.address}")
    except PlanError as error:
        return _complain(str(error))
    finally:
        held.release()
        if data is None:
            shutil.rmtree(folder, ignore_errors=True)


def _run(
    settings: NodeSettings,
    pid_file: PidFile,
    ready: str,
    users: tuple[ScramCredentialSet, ...],
    urgent: Sequence[int] = ENDS,
) -> int:
    """`urgent`: signals that end it at once, when it is shutting down already."""
    # modules stay in memory: no collection looks for garbage among them, which takes 0.1 s
    gc.freeze()
    gc.enable()  # it is off while modules are imported
    _allow_descriptors()
    give_memory_back()
    failure: BaseException | None = None
    try:
        trio.run(_serve, settings, pid_file, ready, users, urgent)
    except* REFUSALS as group:
        failure = first_of(group)
    except* NodeFailed as group:
        failed = first_of(group)
        failure = failed.__cause__ or failed
        _log(
            "node_failed",
            node=settings.node_id,
            error=describe_error(failure, settings),
            **_trace(failure),
        )
    finally:
        pid_file.remove()
    return (
        _complain(f"node {settings.node_id}: {describe_error(failure, settings)}") if failure else 0
    )


def _trace(failure: BaseException) -> dict[str, str]:
    """Return the traceback of an unexpected failure: an error of the disk says enough by itself. A
    plain ValueError is a bug once the node runs.
    """
    return (
        {}
        if isinstance(failure, REFUSALS) and type(failure) is not ValueError
        else {"trace": "".join(format_exception(failure))}
    )


def _refuse(file: str, error: OSError | ValueError) -> int:
    match error:
        case OSError():
            text = (
                f"{file}: {error.strerror}: give the node's properties file, and let the user "
                "that raftka runs as read it"
            )
        case UnicodeError():
            text = f"{file} is not text in UTF-8: give the node's properties file"
        case _:
            text = f"{file}: {error}"
    _log("start_failed", error=text)
    return _complain(text)


def _log(event: str, **fields: Any) -> None:
    """There is no node, or none any more."""
    Events(sys.stderr, lambda: time.time_ns() // 1_000_000).error(event, **fields)


async def _serve(
    settings: NodeSettings,
    pid_file: PidFile,
    ready: str,
    users: tuple[ScramCredentialSet, ...],
    urgent: Sequence[int],
) -> None:
    with trio.open_signal_receiver(*ENDS) as signals:
        pid_file.write()  # who reads it may send a signal
        async with open_runtime(alone=True) as runtime:
            node = Node(runtime, settings, sys.stderr, users)
            node.start()
            edges = open_edges(node.services)
            judge = open_judge(node.services)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(_announce, node, ready)
                await anext(signals)
                notify("STOPPING=1")
                nursery.start_soon(_end_at_once, signals, urgent, nursery.cancel_scope)
                close_edges(edges)
                await node.shutdown()
                if judge is not None:
                    judge.end()
                nursery.cancel_scope.cancel()


async def _announce(node: Node, ready: str) -> None:
    if node.settings.is_broker:
        await node.ready.wait()
    ShortCollections(node.dispatcher.long_requests.any_inside).begin()
    notify("READY=1")
    if ready:
        print(ready, flush=True)


async def _end_at_once(
    signals: AsyncIterator[int], urgent: Sequence[int], scope: trio.CancelScope
) -> None:
    async for number in signals:
        if number in urgent:
            scope.cancel()


def _allow_descriptors() -> None:
    """As many files and connections as the system lets us have."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def _complain(text: str) -> int:
    print(f"raftka: {text}", file=sys.stderr, flush=True)
    return FAILED
