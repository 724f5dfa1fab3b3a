"""Compose files as processes: each service is a `raftka broker start --from-env` on this machine,
with free ports in place of the file's, and 127.0.0.1 in place of its services' names.
"""

import os
import re
import select
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from raftka.cluster.notices import VARIABLE, Notices
from raftka.cluster.parents import options_of_child
from raftka.cluster.ports import HeldPorts
from tests.kit.checkout import FROM_CHECKOUT

VARIABLE_OF_FILE = re.compile(r"\$\{\w+:-([^}]*)\}")  # with its default
ADDRESS = re.compile(r"(?P<host>[A-Za-z0-9_.-]*):(?P<port>\d{4,5})\b")
EVERY, LOCAL = ("", "0.0.0.0"), "127.0.0.1"
READY_S = 30.0
START = ("broker", "start", "--from-env")


class Service(NamedTuple):
    name: str
    environment: Mapping[str, str]
    published: Mapping[int, int]  # ports of the container by those of the machine


class Running(NamedTuple):
    service: Service
    process: subprocess.Popen[bytes]
    log: Path
    environment: Mapping[str, str]
    below: Path  # the properties file below the environment
    health_port: int
    ports: Mapping[int, int]  # ports of this machine by those of the file

    @property
    def text(self) -> str:
        return self.log.read_text()


def services_of(file: Path) -> list[Service]:
    """Return the services whose image is a Kafka's, or raftka's."""
    found = []
    text = VARIABLE_OF_FILE.sub(r"\1", file.read_text())
    for name, each in yaml.safe_load(text)["services"].items():
        if re.search("kafka|raftka", each["image"]) and "zookeeper" not in each["image"]:
            found.append(Service(name, _environment(each), _published(each)))
    return found


def _environment(service: Mapping[str, Any]) -> dict[str, str]:
    given = service.get("environment", {})
    if isinstance(given, list):
        return dict(each.split("=", 1) for each in given)
    return {name: str(value) for name, value in given.items()}


def _published(service: Mapping[str, Any]) -> dict[int, int]:
    pairs = (str(each).split(":")[-2:] for each in service.get("ports", ()))
    return {int(outside): int(inside) for outside, inside in pairs}


class Machine:
    """Free ports for every port of every service."""

    def __init__(self, services: list[Service], held: Iterator[int]) -> None:
        self._services = {each.name: each for each in services}
        self._held = held
        self._ports: dict[tuple[str, int], int] = {}

    def port(self, service: str, port: int) -> int:
        """Return the port of this machine for one of a container, or for a published one."""
        inside = self._services[service].published.get(port, port)
        if (service, inside) not in self._ports:
            self._ports[service, inside] = next(self._held)
        return self._ports[service, inside]

    def ports_of(self, service: str) -> dict[int, int]:
        return {inside: port for (name, inside), port in self._ports.items() if name == service}

    def translate(self, service: str, text: str) -> str:
        def replace(match: re.Match[str]) -> str:
            host, port = match["host"], int(match["port"])
            whose = host if host in self._services else service
            return f"{host if host in EVERY else LOCAL}:{self.port(whose, port)}"

        return ADDRESS.sub(replace, text)

    def environment(self, service: Service, folder: Path) -> dict[str, str]:
        translated = {}
        for name, value in service.environment.items():
            if re.search("LISTENERS$|QUORUM", name):
                value = self.translate(service.name, value)
            elif re.search("LOG_DIRS?$", name):
                value = str(folder / "given")
            translated[name] = value
        return translated


@contextmanager
def started(services: list[Service], folder: Path) -> Iterator[list[Running]]:
    """Start the services; at the end they are killed. Whoever reads a Running waits for it."""
    clean = {name: value for name, value in FROM_CHECKOUT.items() if not name.startswith("KAFKA_")}
    with HeldPorts(6 * len(services)) as held:
        machine = Machine(services, iter(held.numbers))
        running: list[Running] = []
        notices = [Notices() for _ in services]
        try:
            for service, notice in zip(services, notices, strict=True):
                home = folder / service.name
                home.mkdir(parents=True)
                health_port = machine.port(service.name, 0)
                below = home / "server.properties"
                below.write_text(f"log.dirs={home / 'data'}\nmetrics.port={health_port}\n")
                own = machine.environment(service, home)
                environment = {**clean, **own, VARIABLE: notice.address}
                log = home / "log"
                with log.open("wb") as file:
                    process = subprocess.Popen(
                        [sys.executable, "-m", "raftka.cli", *START, str(below)],
                        stdin=subprocess.DEVNULL,
                        stdout=file,
                        stderr=file,
                        cwd=home,
                        **options_of_child(environment),
                    )
                ports = machine.ports_of(service.name)
                running.append(
                    Running(service, process, log, environment, below, health_port, ports)
                )
            for each, notice in zip(running, notices, strict=True):
                _wait(each, notice)
            yield running
        finally:
            for each in running:
                each.process.kill()
                each.process.wait()
            for notice in notices:
                notice.close()


def _wait(running: Running, notices: Notices) -> None:
    """Return when the node says that clients may come, or has ended."""
    pidfd = os.pidfd_open(running.process.pid)
    try:
        while True:
            ready, _, _ = select.select([notices.fileno(), pidfd], [], [], READY_S)
            assert ready, f"{running.service.name} is not ready:\n{running.text}"
            if pidfd in ready:
                running.process.wait()
                return
            if "READY=1" in notices.take().splitlines():
                return
    finally:
        os.close(pidfd)
