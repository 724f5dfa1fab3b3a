"""`raftka cluster start`: brings the nodes up, says where, waits for SIGTERM or Ctrl-C, ends them
in order. Starts nothing a second time.
"""

import os
import shlex
import signal
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

from raftka.cluster.console import ProcessesConsole
from raftka.cluster.plan import (
    HOST,
    NodePlan,
    bridge_ports_from,
    console_port_from,
    metrics_ports_from,
    plan_cluster,
    ports_from,
)
from raftka.cluster.ports import HeldPorts, check_free
from raftka.cluster.processes import ClusterFailed, Processes, how
from raftka.cluster.secured.first_users import VARIABLE, to_text
from raftka.cluster.secured.keys import ADMIN, CLIENT, ClusterSecurity
from raftka.metadata.records import ScramCredentialSet

FOLDER = "security"  # of keys and client files, beside the nodes
CONSOLE_S = 1.0  # between two questions whether the console of stopped nodes is still open
Users = tuple[ScramCredentialSet, ...]


def start_processes(
    nodes: int,
    data: Path,
    base_port: int,
    settings: Mapping[str, str],
    bridge_port: int | None = None,
    secure: bool = False,
    users: Users = (),
    brokers: int = 0,
    *,
    console: bool = True,
) -> int:
    """`brokers`: of each host, when the nodes are hosts. Returns the exit code."""
    from raftka.metadata.configs.settings import NodeSettings

    console = console and not secure
    with (
        HeldPorts(0 if base_port else 3 * nodes) as held,
        HeldPorts(nodes if bridge_port == 0 else 0) as bridges,
        _signals() as signals,
        ExitStack() as opened,
    ):
        try:
            security = ClusterSecurity(data / FOLDER) if secure else None
            plans = _plan(
                nodes,
                data,
                base_port,
                held,
                settings,
                bridge_port,
                bridges,
                security,
                brokers,
                console=console,
            )
            cluster = Processes(plans)
            opened.callback(cluster.close)
            door = (
                ProcessesConsole(cluster, console_port_from(base_port) if base_port else 0)
                if console
                else None
            )
        except (ValueError, OSError) as error:
            return _complain(str(error))
        if door is not None:
            opened.callback(door.close)
        cluster.also(signals)
        cluster.asks = all(
            each.security_protocol == "PLAINTEXT"
            for each in NodeSettings.from_properties(dict(plans[0].properties)).listeners
        )
        for node in cluster.nodes.values():
            node.environment = {VARIABLE: to_text(users)} if users else {}
        try:
            cluster.start_all()
            if cluster.wait_ready():
                if door is not None:
                    cluster.also(door.fileno())
                    door.start()
                _say_where(cluster.bootstrap_servers, plans, door.url if door else None)
                _say_how(cluster.bootstrap_servers, security)
                return _watch(cluster, signals, door)
            cluster.stop()
            return 0
        except ClusterFailed as error:
            return _complain(str(error))


def _scheme(plan: NodePlan) -> str:
    return (
        "https"
        if plan.properties.get("metrics.ssl.enable", "").strip().lower() == "true"
        else "http"
    )


def _say_where(bootstrap_servers: str, plans: list[NodePlan], console: str | None) -> None:
    print(f"bootstrap.servers={bootstrap_servers}", flush=True)
    scraped = [plan for plan in plans if plan.metrics_port is not None]
    if urls := [f"{_scheme(plan)}://{HOST}:{plan.metrics_port}/metrics" for plan in scraped]:
        print(f"metrics={','.join(urls)}", flush=True)
    if bridges := [f"{HOST}:{plan.bridge_port}" for plan in plans if plan.bridge_port is not None]:
        print(f"zookeeper.connect={','.join(bridges)}", flush=True)
    if console is not None:
        print(f"console={console}", flush=True)


def _say_how(bootstrap_servers: str, security: ClusterSecurity | None) -> None:
    """Write and name the files of clients."""
    if security is None:
        return
    for files in (security.admin, security.issue(CLIENT)):
        for family, path in files.write(bootstrap_servers):
            print(f"{files.user}: {path}  # {family}", flush=True)
    admin = security.folder / f"{ADMIN}.properties"
    print(
        f"The user {ADMIN} may do everything, {CLIENT} only what ACLs allow, for instance all "
        "with topics:",
        flush=True,
    )
    print(
        f"raftka acls create --bootstrap-server {bootstrap_servers} --command-config {admin} "
        f"--principal User:{CLIENT} --operation all --topic '*'",
        flush=True,
    )
    print("The console, with the rights of that administrator for all who use this machine:")
    print(
        f"raftka console --bootstrap-server {bootstrap_servers} --command-config {admin}",
        flush=True,
    )


def _watch(cluster: Processes, signals: int, console: ProcessesConsole | None) -> int:
    while (lives := any(node.alive for node in cluster.nodes.values())) or (
        console is not None and console.is_open
    ):
        for event in cluster.poll(None if lives else CONSOLE_S):
            if event.kind == "ended":
                plan = cluster.nodes[event.node_id].plan
                if console is not None:
                    console.control.note(f"{plan.title} {how(event.exit_code)}")
                _complain(
                    f"{plan.title} {how(event.exit_code)}; it comes back with: raftka "
                    f"{shlex.join(plan.arguments)}"
                )
            elif event.fd == signals:
                cluster.stop()
                return 0
            elif event.kind == "other" and console is not None:
                console.work_off()
    return _complain("no node is left")


def start_in_process(
    nodes: int,
    data: Path,
    base_port: int,
    settings: Mapping[str, str],
    bridge_port: int | None = None,
    secure: bool = False,
    users: Users = (),
    *,
    console: bool = True,
) -> int:
    """The same with all nodes here. Returns the exit code."""
    import trio

    from raftka.broker.refusal import REFUSALS
    from raftka.cluster.embedded import launch
    from raftka.console.control.embedded import EmbeddedConsole, control_of
    from raftka.runtime.real.runtime import NodeFailed

    console = console and not secure

    async def run() -> None:
        check_free(
            nodes,
            base_port,
            bridge_port,
            metrics="metrics.port" not in settings,
            console=console,
        )
        with trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
            security = ClusterSecurity(data / FOLDER) if secure else None
            async with launch(
                nodes,
                data=data,
                base_port=base_port,
                properties=settings,
                metrics=True,
                bridge_port=bridge_port,
                security=security,
                first_users=users,
            ) as cluster:
                plans = [node.plan for node in cluster.nodes.values()]
                for plan in plans:
                    plan.pid_file.write_text(f"{os.getpid()}\n", encoding="ascii")
                door = (
                    EmbeddedConsole(
                        control_of(cluster), console_port_from(base_port) if base_port else 0
                    )
                    if console
                    else None
                )
                try:
                    _say_where(cluster.bootstrap_servers, plans, door.url if door else None)
                    _say_how(cluster.bootstrap_servers, security)
                    await anext(signals)
                finally:
                    if door is not None:
                        with trio.CancelScope(shield=True):
                            await trio.to_thread.run_sync(door.close)

    try:
        trio.run(run)
    except (*REFUSALS, NodeFailed, trio.TooSlowError) as error:
        return _complain(str(error) or type(error).__name__)
    finally:
        for file in data.glob("node-*/raftka.pid"):
            file.unlink(missing_ok=True)
    return 0


def _plan(
    nodes: int,
    data: Path,
    base_port: int,
    held: HeldPorts,
    settings: Mapping[str, str],
    bridge_port: int | None,
    bridges: HeldPorts,
    security: ClusterSecurity | None = None,
    brokers: int = 0,
    *,
    console: bool = False,
) -> list[NodePlan]:
    """Check settings, and the ports that the user has asked for, before anything is started: each
    mistake is told once, not by every node.
    """
    from raftka.cluster.host.plan import plan_host
    from raftka.metadata.configs.settings import NodeSettings

    ports, metrics = (
        (ports_from(base_port, nodes, max(1, brokers)), metrics_ports_from(base_port, nodes))
        if base_port
        else held.triples()
    )
    if brokers and not base_port:
        ports = [(held.add_row(brokers), controller) for _, controller in ports]
    bridge_ports = bridges.numbers or (bridge_ports_from(bridge_port, nodes) if bridge_port else ())
    door = console_port_from(base_port) if console and base_port else None
    plans = plan_cluster(data, ports, settings, metrics, bridge_ports, security, brokers, door)
    if brokers:
        plan_host(plans[0].properties, brokers, "")
    NodeSettings.from_properties(dict(plans[0].properties))
    check_free(
        nodes,
        base_port,
        bridge_port,
        metrics="metrics.port" not in settings,
        brokers=brokers,
        console=console,
    )
    return plans


@contextmanager
def _signals() -> Iterator[int]:
    """A descriptor that becomes readable with the first SIGTERM or SIGINT."""
    readable, writable = os.pipe()
    os.set_blocking(writable, False)
    before = [signal.signal(number, lambda *_: None) for number in (signal.SIGTERM, signal.SIGINT)]
    signal.set_wakeup_fd(writable, warn_on_full_buffer=False)
    try:
        yield readable
    finally:
        signal.set_wakeup_fd(-1)
        for number, handler in zip((signal.SIGTERM, signal.SIGINT), before, strict=True):
            signal.signal(number, handler)
        os.close(readable)
        os.close(writable)


def _complain(text: str) -> int:
    print(f"raftka: {text}", file=sys.stderr, flush=True)
    return 1
