"""`raftka generate grafana|alerts|systemd`: each prints a file."""

import json
import os
import sys
from pathlib import Path

import click

from raftka.cli.tree.nodes import Noun

UNIT = """[Unit]
Description=raftka, {title}
Documentation=https://kafka.apache.org/protocol
Wants=network-online.target
After=network-online.target

[Service]
Type=notify
User={user}
ExecStart={command}
Restart=on-failure
RestartSec=2
# the first SIGTERM is a controlled shutdown: leaderships move
TimeoutStopSec=120
LimitNOFILE=1048576
MemorySwapMax=0
NoNewPrivileges=true
ProtectSystem=full
PrivateTmp=true

[Install]
WantedBy=multi-user.target
"""


@click.group(cls=Noun)
def generate() -> None:
    """Files for Grafana, Prometheus and systemd, on standard output."""


@generate.command("grafana", example="raftka generate grafana")
def generate_grafana() -> None:
    """A dashboard for Grafana, of the metrics at metrics.port."""
    from raftka.cli.generate.dashboard import dashboard

    print(json.dumps(dashboard(), indent=2))


@generate.command("alerts", example="raftka generate alerts")
def generate_alerts() -> None:
    """Alerting rules for Prometheus, whose job for the nodes is raftka."""
    from raftka.cli.generate.alerts import alert_rules

    print(alert_rules(), end="")


@generate.command(
    "systemd", example="raftka generate systemd /etc/raftka/server.properties --user raftka"
)
@click.argument(
    "file",
    metavar="[FILE.properties]",
    type=click.Path(path_type=Path),
    default=Path("/etc/raftka/server.properties"),
)
@click.option("--user", default="raftka", show_default=True, help="That the node runs as.")
@click.option(
    "--brokers", type=click.IntRange(1), metavar="K", help="The unit of a host of K brokers."
)
def generate_systemd(file: Path, user: str, brokers: int | None) -> None:
    """A unit for the node of FILE, with the raftka that runs now."""
    program = Path(sys.executable).with_name("raftka")
    kind = f"host start {file} --brokers {brokers}" if brokers else f"broker start {file}"
    title = f"{brokers} brokers of {file}" if brokers else os.fspath(file)
    print(UNIT.format(title=title, user=user, command=f"{program} {kind}"), end="")
