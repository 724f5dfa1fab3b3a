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
import socket
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from pathlib import Path
from traceback import format_exception
from typing import TYPE_CHECKING, Any, cast

import trio

from raftka.broker.node import Node
from raftka.broker.refusal import REFUSALS, describe_error, first_of
from raftka.broker.telemetry.event_log import Events
from raftka.cluster.notices import notify
from raftka.cluster.parents import follow_parent
from raftka.cluster.pid_file import PidFile
from raftka.cluster.properties import parse
from raftka.cluster.secured.first_users import VARIABLE, from_text
from raftka.cluster.services import close_edges, open_edges
from raftka.cluster.services.payloads import open_judge
from raftka.metadata.configs.settings import NodeSettings
from raftka.metadata.records import ScramCredentialSet
from raftka.runtime.real.allocator import give_memory_back
from raftka.runtime.real.base import RealRuntime
from raftka.runtime.real.garbage import ShortCollections
from raftka.runtime.real.runtime import NodeFailed, open_runtime

if TYPE_CHECKING:
    from raftka.cluster.services.console import Edge as ConsoleEdge

FAILED = 1  # exit code
MOST_OPEN = 10_240  # files and connections that macOS allows, although its limit is higher
ENDS = (signal.SIGTERM, signal.SIGINT)


def start(
    file: str,
    ready: str = "",
    users: tuple[ScramCredentialSet, ...] = (),
    topics: str | None = None,
    *,
    is_controlled: bool = False,
) -> int:
    """Run the node until SIGTERM and print `ready` when clients may come; returns the exit code.
    `users`: of the cluster, should it be formed now. `topics`: in place of the file's
    raftka.topics. `is_controlled`: its console may pause it and set faults.
    """
    try:
        properties = parse(Path(file).read_text(encoding="utf-8"))
        settings = NodeSettings.from_properties(_with_topics(properties, topics))
    except (OSError, ValueError) as error:
        return _refuse(file, error)
    return _run(
        settings,
        PidFile(Path(file).absolute().parent / "raftka.pid"),
        ready,
        users or from_text(os.environ.pop(VARIABLE, "")),
        is_controlled=is_controlled,
    )


def start_from_environment(
    file: str | None = None,
    users: tuple[ScramCredentialSet, ...] = (),
    topics: str | None = None,
) -> int:
    """Run the node that the environment describes, with the settings of the file below, until
    SIGTERM; returns the exit code. Writes no file but the node's data.
    """
    from raftka.cluster.environment import node_properties

    try:
        properties, notices = node_properties(file)
        settings = NodeSettings.from_properties(_with_topics(properties, topics))
    except (OSError, ValueError) as error:
        return _refuse("the environment", error)
    for notice in notices:
        _complain(notice)
    return _run(settings, None, "", users or from_text(os.environ.pop(VARIABLE, "")))


def _with_topics(properties: Mapping[str, str], topics: str | None) -> dict[str, str]:
    return {**properties, **({} if topics is None else {"raftka.topics": topics})}


def start_of_host(file: str, properties: dict[str, str]) -> int:
    """The same for one broker of the host that FILE describes, with the properties that were made
    for it.

    Another SIGTERM does not end it at once, SIGINT does: systemd may send one to all processes of a
    unit, and the supervisor sends its own.
    """
    settings = NodeSettings.from_properties(properties)
    pid_file = PidFile(Path(file).absolute().parent / f"raftka-{settings.node_id}.pid")
    return _run(settings, pid_file, "", from_text(os.environ.pop(VARIABLE, "")), (signal.SIGINT,))


def start_dev(
    port: int,
    data: Path | None,
    topics: str | None = None,
    api_ceiling: str | None = None,
    *,
    console: bool = True,
) -> int:
    """Run one node without a properties file, for trying things out, until SIGTERM; returns the
    exit code. Its settings are those that `cluster start` plans. Without `data` it keeps everything
    in a temporary folder and removes that at the end.
    """
    from raftka.cluster.plan import (
        HOST,
        PlanError,
        console_port_from,
        metrics_ports_from,
        plan_cluster,
        ports_from,
    )
    from raftka.cluster.ports import HeldPorts, check_free

    folder = data or Path(tempfile.mkdtemp(prefix="raftka-dev-"))
    held = HeldPorts(0 if port else 3)
    at = HeldPorts(1 if console and not port else 0)
    try:
        check_free(1, port, None, metrics=console, option="--port", console=console)
        settings, where = {}, ""
        if api_ceiling is not None:
            settings["raftka.api.ceiling"] = api_ceiling
        if console:
            number = console_port_from(port) if port else at.numbers[0]
            settings |= {"console.port": str(number), "console.sql": "true"}
            where = f"\nconsole=http://{HOST}:{number}/"
        ports, scraped = (
            (ports_from(port, 1), metrics_ports_from(port, 1)) if port else held.triples()
        )
        # the console reads them
        (plan,) = plan_cluster(folder, ports, settings, scraped if console else ())
        plan.write()
        kept = "it is removed when the node ends" if data is None else "it stays"
        print(f"raftka: the data is in {folder}, {kept}", file=sys.stderr, flush=True)
        ready = f"bootstrap.servers={plan.address}{where}"
        at.release()  # a console listens at once: nothing else may be bound there
        return start(str(plan.properties_file), ready, (), topics, is_controlled=True)
    except PlanError as error:
        return _complain(str(error))
    finally:
        held.release()
        at.release()
        if data is None:
            shutil.rmtree(folder, ignore_errors=True)


def _run(
    settings: NodeSettings,
    pid_file: PidFile | None,
    ready: str,
    users: tuple[ScramCredentialSet, ...],
    urgent: Sequence[int] = ENDS,
    *,
    is_controlled: bool = False,
) -> int:
    """`pid_file`: None: none is written. `urgent`: signals that end it at once, when it is shutting
    down already. `is_controlled`: by its console.
    """
    follow_parent()
    # modules stay in memory: no collection looks for garbage among them, which takes 0.1 s
    gc.freeze()
    gc.enable()  # it is off while modules are imported
    _allow_descriptors()
    give_memory_back()
    failure: BaseException | None = None
    try:
        trio.run(_serve, settings, pid_file, ready, users, urgent, is_controlled)
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
        if pid_file is not None:
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
    pid_file: PidFile | None,
    ready: str,
    users: tuple[ScramCredentialSet, ...],
    urgent: Sequence[int],
    is_controlled: bool,
) -> None:
    with trio.open_signal_receiver(*ENDS) as signals:
        if pid_file is not None:
            pid_file.write()  # a reader of the file may send a signal
        async with open_runtime(alone=True) as runtime:
            node = Node(runtime, settings, sys.stderr, users)
            node.start()
            edges = open_edges(node.services)
            judge = open_judge(node.services)
            if is_controlled and "console.port" in edges:
                _let_control(cast("ConsoleEdge", edges["console.port"]), node, runtime)
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


def _let_control(edge: "ConsoleEdge", node: Node, runtime: RealRuntime) -> None:
    """Of the node of `--dev`: nothing is imported for it before its console is opened."""
    token = trio.lowlevel.current_trio_token()
    begun: list[Callable[[socket.socket], None]] = []

    def begin(sock: socket.socket) -> None:
        from raftka.cluster.console import report_failure
        from raftka.console.control.channel import serve_control
        from raftka.console.control.embedded import control_of_node

        if not begun:
            control = trio.from_thread.run_sync(control_of_node, node, runtime, trio_token=token)
            begun.append(serve_control(control, report_failure))
        begun[0](sock)

    edge.let_control(begin)


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
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        except (OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, MOST_OPEN), hard))


def _complain(text: str) -> int:
    print(f"raftka: {text}", file=sys.stderr, flush=True)
    return FAILED
