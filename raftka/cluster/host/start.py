"""`raftka host start`: the brokers of a host until SIGTERM, its two pages, and what systemd is
told. Starts nothing a second time by itself.
"""

import os
import secrets
import signal
import sys
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from socket import gethostname
from typing import NamedTuple

import trio

from raftka.broker.context import BrokerContext
from raftka.broker.network.listening import listen
from raftka.broker.refusal import REFUSALS, describe_error, first_of
from raftka.broker.telemetry.event_log import Events, LimitHits
from raftka.broker.telemetry.metrics import Metrics
from raftka.cluster.fork_server import Forge
from raftka.cluster.host.pages import HostPages
from raftka.cluster.host.plan import BrokerPlan, HostPlan, plan_host
from raftka.cluster.host.supervisor import Supervisor
from raftka.cluster.notices import VARIABLE as READY_VARIABLE
from raftka.cluster.notices import Notices, notify
from raftka.cluster.parents import follow_parent
from raftka.cluster.pid_file import PidFile
from raftka.cluster.ports import HeldPorts
from raftka.cluster.processes import python_path
from raftka.cluster.properties import parse
from raftka.cluster.secured.first_users import VARIABLE, to_text
from raftka.metadata.records import ScramCredentialSet
from raftka.runtime.real.base import RealRuntime
from raftka.runtime.real.runtime import NodeFailed, open_runtime

FAILED = 1  # exit code
TOKEN_BYTES = 32
# a broker imports it with the first scrape: once for all is less memory
OF_PAGES = ("raftka.broker.exporter.exposition",)


class Host(NamedTuple):
    file: Path
    plan: HostPlan
    token: str  # opens the brokers' pages
    users: str  # of the cluster, as VARIABLE has them


def start_host(file: str, brokers: int, users: tuple[ScramCredentialSet, ...] = ()) -> int:
    """Run the host until SIGTERM; returns the exit code. `users`: of the cluster, should it be
    formed now.
    """
    follow_parent()
    try:
        plan = plan_host(parse(Path(file).read_text(encoding="utf-8")), brokers, gethostname())
    except OSError as error:
        return _complain(
            f"{file}: {error.strerror}: give the host's properties file, and let the user that "
            "raftka runs as read it"
        )
    except UnicodeError:
        return _complain(f"{file} is not text in UTF-8: give the host's properties file")
    except ValueError as error:
        return _complain(f"{file}: {error}")
    pid_file = PidFile(Path(file).absolute().parent / "raftka.pid")
    first_users = to_text(users) if users else os.environ.pop(VARIABLE, "")
    has_page = plan.settings["metrics.port"] is not None
    failure: BaseException | None = None
    code = FAILED
    try:
        with HeldPorts(brokers if has_page else 0) as ports:
            token = secrets.token_urlsafe(TOKEN_BYTES)
            host = Host(
                Path(file).absolute(),
                plan.with_pages(ports.numbers, token) if has_page else plan,
                token,
                first_users,
            )
            pid_file.write()
            forge = Forge(None, OF_PAGES if has_page else ())  # before Trio runs
            try:
                code = trio.run(_run, host, forge)
            finally:
                forge.close()
    except* REFUSALS as group:
        failure = first_of(group)
    except* NodeFailed as group:
        failed = first_of(group)
        failure = failed.__cause__ or failed
    finally:
        pid_file.remove()
    return code if failure is None else _complain(describe_error(failure, plan.settings))


class BrokerProcess:
    """One broker of a host as a process that the forge has made."""

    def __init__(
        self, forge: Forge, file: Path, plan: BrokerPlan, environment: Mapping[str, str], log: int
    ) -> None:
        """`log`: the descriptor that the broker's lines go to. Raises OSError when no process can
        be forked.
        """
        self._notices = Notices()
        try:
            self._forked = forge.start(
                file, {**environment, READY_VARIABLE: self._notices.address}, log, plan.properties
            )
        except OSError:
            self._notices.close()
            raise
        self.pid = self._forked.pid

    async def until_ready(self) -> None:
        """Return when the broker is registered and unfenced; never if it ends before."""
        while True:
            await trio.lowlevel.wait_readable(self._notices.fileno())
            if "READY=1" in self._notices.take().splitlines():
                return

    async def until_end(self) -> int:
        """Return the exit code; negative: the signal. To be called once."""
        await trio.lowlevel.wait_readable(self._forked.life)
        code = self._forked.wait()
        self._notices.close()
        return code

    def signal(self, number: int) -> None:
        self._forked.send_signal(number)


def environment_of(python_path: str) -> dict[str, str]:
    """Return this process's environment, in which a broker finds raftka."""
    return {**os.environ, "PYTHONPATH": python_path}


async def _run(host: Host, forge: Forge) -> int:
    settings = host.plan.settings
    with trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
        async with open_runtime(alone=True) as runtime:
            events = Events(
                sys.stderr, runtime.clock.wall_ms, settings["raftka.log.level"], host=host.plan.rack
            )
            context = BrokerContext(
                runtime, settings, events, Metrics(LimitHits(events, runtime.clock.now))
            )
            return await _supervise(host, forge, context, runtime, signals)


async def _supervise(
    host: Host,
    forge: Forge,
    context: BrokerContext,
    runtime: RealRuntime,
    signals: AsyncIterator[int],
) -> int:
    plan, settings = host.plan, host.plan.settings
    port: int | None = None
    log, environment = sys.stderr.fileno(), environment_of(python_path())
    told = {VARIABLE: host.users} if host.users else {}

    def launch(broker: BrokerPlan) -> BrokerProcess:
        started = BrokerProcess(
            forge, host.file, broker, {**environment, **(told if broker.has_vote else {})}, log
        )
        if broker.has_vote:
            told.clear()  # the users are for its first start
        return started

    def announce() -> None:
        notify("READY=1")
        _say_where(plan, port)

    supervisor = Supervisor(plan.brokers, launch, context.events, context.metrics, announce)
    if settings["metrics.port"] is not None:
        server = HostPages(context, supervisor, host.token).server()
        port = listen(
            runtime.network,
            "metrics.port",
            settings.page_host,
            settings["metrics.port"],
            server.accept,
        ).port
    context.events.info(
        "host_started", brokers=[each.node_id for each in plan.brokers], metrics_port=port
    )
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_stop_by_signals, signals, supervisor)
        await supervisor.run()
        nursery.cancel_scope.cancel()
    return 0 if supervisor.failure is None else _complain(supervisor.failure)


async def _stop_by_signals(signals: AsyncIterator[int], supervisor: Supervisor) -> None:
    async for _ in signals:
        notify("STOPPING=1")
        supervisor.stop()


def _say_where(plan: HostPlan, port: int | None) -> None:
    """On standard output; addresses that are chosen by the brokers are in their lines of the
    log.
    """
    if all(addresses := [each.address for each in plan.brokers]):
        print(f"bootstrap.servers={','.join(map(str, addresses))}", flush=True)
    if port is not None:
        scheme = "https" if plan.settings["metrics.ssl.enable"] else "http"
        print(
            f"metrics={scheme}://{plan.settings.page_host or 'localhost'}:{port}/metrics",
            flush=True,
        )


def _complain(text: str) -> int:
    print(f"raftka: {text}", file=sys.stderr, flush=True)
    return FAILED
