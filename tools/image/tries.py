"""Tries of the image where no engine of containers is: in namespaces of its own, from a root file
system that is read only, as the image's user, with the image's own entry point and health check.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

GLOBAL = ("--storage-driver", "vfs")
READY_S, END_S = 20.0, 10.0
# $1: the root, $2: the data, $3: user and group; the rest: what is run there. Only /data and /tmp
# can be written to.
INSIDE = """
set -e
mount --make-rprivate /
mount --bind "$1" "$1"
mount -o remount,bind,ro "$1"
mount -t tmpfs tmpfs "$1/tmp"
mount --bind "$2" "$1/data"
mount -t proc proc "$1/proc"
mount --rbind /dev "$1/dev"
ip link set lo up
root=$1 user=$3
shift 3
exec chroot --userspec="$user" "$root" /usr/bin/env -i "$@"
"""
RECORD = "a record of the image's try"


class TryFailed(Exception):
    """The image does not do what it should; the text is for its builder."""


class Image:
    """The file system of an image, and what its configuration says."""

    def __init__(self, root: Path, config: Mapping[str, object]) -> None:
        self.root = root
        self.user = str(config["User"])
        self.environment = tuple(_strings(config["Env"]))
        self.entry_point = _strings(config["Entrypoint"])
        health = config.get("Healthcheck")
        assert isinstance(health, dict), "the image has no health check"
        kind, *self.health_check = _strings(health["Test"])
        assert kind == "CMD", f"the health check is {kind}"
        self.stop_signal = str(config["StopSignal"])


def _strings(value: object) -> list[str]:
    assert isinstance(value, list), value
    return [str(each) for each in value]


@contextmanager
def mounted(tag: str) -> Iterator[Image]:
    """A container of the image, whose files can be read; at the end it is removed."""
    container = _buildah("from", "--pull-never", tag)
    try:
        found = json.loads(_buildah("inspect", "--type=container", container))
        yield Image(Path(_buildah("mount", container)), found["Docker"]["config"])
    finally:
        _buildah("rm", container)


def _buildah(*arguments: str) -> str:
    return subprocess.run(
        ["buildah", *GLOBAL, *arguments], stdout=subprocess.PIPE, text=True, check=True
    ).stdout.strip()


class Container:
    """The image's entry point in namespaces of its own: mounts, network, processes."""

    def __init__(self, image: Image, data: Path, environment: Mapping[str, str], log: Path) -> None:
        self.image = image
        self.log = log
        given = [*image.environment, *[f"{name}={value}" for name, value in environment.items()]]
        self._given = given
        self.started_at = time.monotonic()
        alone = ["unshare", "--mount", "--net", "--pid", "--fork", "--kill-child"]
        inside = ["sh", "-c", INSIDE, "sh", str(image.root), str(data), image.user]
        with log.open("wb") as file:
            self._unshare = subprocess.Popen(
                [*alone, *inside, *given, *image.entry_point],
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
            )

    @property
    def pid(self) -> int:
        """The process id of the entry point, as the machine counts."""
        children = Path(f"/proc/{self._unshare.pid}/task/{self._unshare.pid}/children").read_text()
        return int(children.split()[0])

    def run(self, arguments: Sequence[str], stdin: str = "") -> subprocess.CompletedProcess[str]:
        """Run a command of the image in the container, as its user."""
        enter = ["nsenter", f"--target={self.pid}", "--mount", "--net", "--pid", "--root", "--wd=/"]
        user = ["chroot", f"--userspec={self.image.user}", "/", "/usr/bin/env", "-i", *self._given]
        return subprocess.run(
            [*enter, *user, *arguments], input=stdin, capture_output=True, text=True, check=False
        )

    def client(self, source: str) -> subprocess.CompletedProcess[str]:
        """Run Python of this machine in the container's network."""
        return subprocess.run(
            ["nsenter", f"--target={self.pid}", "--net", sys.executable, "-c", source],
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )

    def wait_healthy(self) -> float:
        """Return after how many seconds the health check has succeeded. Raises TryFailed."""
        while True:
            if self._unshare.poll() is not None:
                raise TryFailed(f"the node has ended:\n{self.log.read_text()}")
            told = ""
            try:
                check = self.run(self.image.health_check)
                if check.returncode == 0:
                    return time.monotonic() - self.started_at
                told = check.stderr
            except (OSError, IndexError):
                pass  # it has no process yet
            if time.monotonic() - self.started_at > READY_S:
                raise TryFailed(f"it is not healthy: {told}\n{self.log.read_text()}")

    def stop(self) -> float:
        """Send the image's stop signal; return after how many seconds the node has ended."""
        began = time.monotonic()
        subprocess.run(["kill", "-s", self.image.stop_signal, str(self.pid)], check=True)
        try:
            code = self._unshare.wait(END_S)
        except subprocess.TimeoutExpired:
            raise TryFailed(f"it has not ended after {END_S:g} s") from None
        if code != 0:
            raise TryFailed(f"it has ended with {code}:\n{self.log.read_text()}")
        return time.monotonic() - began

    def close(self) -> None:
        if self._unshare.poll() is None:
            self._unshare.kill()  # its child goes with it
            self._unshare.wait()


CLIENT = f"""
from confluent_kafka import Consumer, Producer

for server in ("localhost:9092", "127.0.0.1:19092"):
    producer = Producer({{"bootstrap.servers": server, "acks": "all"}})
    producer.produce("orders", {RECORD!r}, on_delivery=lambda error, message: print(error))
    assert producer.flush(20) == 0
    consumer = Consumer(
        {{"bootstrap.servers": server, "group.id": server, "auto.offset.reset": "earliest"}}
    )
    consumer.subscribe(["orders"])
    message = consumer.poll(20)
    print(message and (message.error() or message.value().decode()))
    consumer.close()
"""


def try_image(tag: str, folder: Path) -> None:
    """Start the image twice on the same data; a record of the first life is there in the second.
    Raises TryFailed.
    """
    data, log = folder / "data", folder / "log"
    data.mkdir()
    with mounted(tag) as image:
        os.chown(data, *map(int, image.user.split(":")))
        settings = {"KAFKA_CREATE_TOPICS": "orders:1:1", "KAFKA_HEAP_OPTS": "-Xmx1G"}
        for life in (1, 2):
            container = Container(image, data, settings, log)
            try:
                healthy = container.wait_healthy()
                if life == 1:
                    _expect(container.client(CLIENT), f"None\n{RECORD}\n" * 2)
                    _expect(container.run(["raftka", "--version"]), "raftka")
                    written = container.run(["sh", "-c", "touch /etc/x || touch /data/x && id -u"])
                    _expect(written, "1000\n", "Read-only file system")
                else:
                    # no engine writes /etc/hosts here, so nothing knows localhost
                    server = ["--bootstrap-server", "127.0.0.1:19092"]
                    consume = ["raftka", "consume", "orders", "--from", "start", "--exit-at-end"]
                    _expect(container.run([*consume, *server]), f"{RECORD}\n" * 2)
                ended = container.stop()
            finally:
                container.close()
            print(f"life {life}: healthy after {healthy:.2f} s, ended {ended:.2f} s after SIGTERM")


def _expect(done: subprocess.CompletedProcess[str], out: str, err: str = "") -> None:
    if not done.stdout.startswith(out) or err not in done.stderr:
        raise TryFailed(f"{done.args[-1]!r} printed\n{done.stdout}{done.stderr}")
