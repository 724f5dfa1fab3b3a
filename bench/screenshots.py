"""`./run screenshots`: take the pictures of docs/images/ anew, of a real run: the trucks' project
on a cluster, its page in Chromium, and answers of `raftka sql`. Takes ten minutes. Needs Chromium
(on Debian: apt install chromium).

    trucks-map.png      the page: positions, fences, alerts
    trucks-history.png  the same with the slider in the past
    sql.png             what `raftka sql` prints, on topics and on what a running pipeline keeps
"""

import argparse
import html
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.request import urlopen

from raftka.cluster.demo import TOPIC, TRUCKS, Trucks

IMAGES = Path(__file__).parent.parent / "docs" / "images"
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
LARGEST_BYTES = 200_000
PARTITIONS = 4
PAUSE_S, STEP_S = 0.2, 0.1  # between two positions of a truck, and of its way
WAIT_S = 900.0
ALERTS, MINUTES, FRESH_S = 8, 5, 12.0
PAGE_SIZE, TEXT_SIZE = "1080,680", "1100,440"
SLIDER = """<script>addEventListener("load", () => setTimeout(() => {
  $("slider").value = 1000 - 1000 * MINUTES / $("span").value; $("slider").oninput();
}, 1500));</script>"""
TERMINAL = """<!doctype html><meta charset="utf-8">
<style>body {{ margin: 0; background: #10161d; color: #e6edf3; }}
pre {{ font: 14px/1.35 monospace; padding: 1rem 1.2rem; margin: 0; white-space: pre-wrap; }}
b {{ color: #7ee2a8; font-weight: 600; }}</style><pre>{}</pre>"""
QUESTIONS = (
    "select truck, latitude, longitude, speed_kmh, _timestamp from silver order by _timestamp "
    "desc limit 5",
    "select count(*) as positions, count(distinct truck) as trucks, max(_timestamp) as newest "
    "from silver",
    "select * from minutes order by minute desc, truck limit 5",
)


class Drive(threading.Thread):
    """Twenty trucks that say where they are, until `stop`."""

    def __init__(self, bootstrap_servers: str) -> None:
        super().__init__(name="trucks", daemon=True)
        self._servers = bootstrap_servers
        self._over = threading.Event()
        self.failure: Exception | None = None

    def run(self) -> None:
        from confluent_kafka import Producer

        try:
            producer, step = Producer({"bootstrap.servers": self._servers}), 0
            while not self._over.wait(PAUSE_S):
                for truck in range(TRUCKS):
                    position = json.loads(Trucks.position(truck, step * STEP_S)) | {
                        "speed_kmh": speed(truck, step)
                    }
                    producer.produce(TOPIC, json.dumps(position), f"truck-{truck + 1:02}")
                producer.flush()
                step += 1
        except Exception as error:
            self.failure = error

    def stop(self) -> None:
        self._over.set()
        self.join()


def speed(truck: int, step: int) -> float:
    """One of them is too fast now and then."""
    return (
        93.0
        if truck == step // 100 % TRUCKS and step % 100 < 20
        else 50.0 + (step * 3 + truck * 13) % 35
    )


class Browser:
    def __init__(self, folder: Path) -> None:
        found = next(filter(None, map(shutil.which, BROWSERS)), None)
        if found is None:
            raise SystemExit("there is no Chromium; on Debian: apt install chromium")
        quiet = [
            "--disable-gpu",
            "--disable-quic",
            "--no-first-run",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
        ]
        self._command = [
            found,
            "--headless",
            "--no-sandbox",
            "--hide-scrollbars",
            *quiet,
            f"--user-data-dir={folder / 'profile'}",
        ]

    def take(self, url: str, picture: Path, size: str) -> None:
        """The page's clock runs ahead by the budget."""
        command = [
            *self._command,
            f"--window-size={size}",
            "--virtual-time-budget=2500",
            f"--screenshot={picture}",
            url,
        ]
        subprocess.run(command, check=True, capture_output=True, timeout=120)
        if picture.stat().st_size >= LARGEST_BYTES:
            raise SystemExit(
                f"{picture} has {picture.stat().st_size:,} bytes: it is to be smaller than "
                f"{LARGEST_BYTES:,}"
            )
        print(f"{picture}: {picture.stat().st_size:,} bytes")


@contextmanager
def running(project: Path) -> Iterator[subprocess.Popen[bytes]]:
    command = [
        sys.executable,
        "-m",
        "raftka.cli",
        "pipeline",
        "run",
        str(project),
        "--no-page",
        "--every",
        "1",
        "--master",
        "local[2]",
    ]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, start_new_session=True)
    try:
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(60)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def wait(there: Callable[[], bool], process: subprocess.Popen[bytes], drive: Drive) -> None:
    deadline = time.monotonic() + WAIT_S
    while not there():
        if drive.failure is not None:
            raise drive.failure
        if process.poll() is not None or time.monotonic() > deadline:
            raise SystemExit(f"the pipeline shows nothing: exit code {process.returncode}")
        time.sleep(1)


def asked(url: str) -> dict[str, Any]:
    try:
        with urlopen(url, timeout=10) as answer:
            found: dict[str, Any] = json.load(answer)
            return found
    except (URLError, OSError):
        return {}


def is_ready(url: str) -> bool:
    """Return whether the page has some minutes of the past, alerts, and positions that are hardly a
    moment old.
    """
    now_s, latest = time.time(), asked(f"{url}latest")
    minutes = {row[0] for row in asked(f"{url}history?minutes=60").get("rows", ())}
    seen = [
        datetime.fromisoformat(each["_timestamp"]).timestamp()
        for each in latest.get("positions", {}).values()
    ]
    return (
        len(minutes) >= MINUTES
        and len(latest.get("alerts", ())) >= ALERTS
        and bool(seen)
        and min(seen) > now_s - FRESH_S
    )


def answers(project: Path) -> str:
    """Lines of a terminal, as HTML."""
    lines = []
    for question in QUESTIONS:
        command = ["raftka", "sql", "--pipeline", str(project), question]
        done = subprocess.run(
            [sys.executable, "-m", "raftka.cli", *command[1:]],
            capture_output=True,
            text=True,
            timeout=WAIT_S,
            check=False,
        )
        if done.returncode:
            raise SystemExit(done.stderr)
        shown = shlex.join([*command[:3], project.name, question]).replace("'", '"')
        lines.append(f"<b>$ {html.escape(shown)}</b>\n{html.escape(done.stdout)}")
    return TERMINAL.format("\n".join(lines))


def take_all(images: Path) -> None:
    from raftka.pipeline import page as pages
    from raftka.pipeline.project import init
    from raftka.testing import Cluster

    with (
        tempfile.TemporaryDirectory(prefix="raftka-screenshots-") as name,
        Cluster(nodes=3) as cluster,
    ):
        folder = Path(name)
        browser, project = Browser(folder), folder / "trucks"
        cluster.create_topic(TOPIC, PARTITIONS)
        init("trucks", project, cluster.bootstrap_servers)
        drive, shown = Drive(cluster.bootstrap_servers), pages.page_of(project, 0)
        assert shown is not None
        drive.start()
        shown.start()
        try:
            with running(project) as process:
                wait(lambda: is_ready(shown.url), process, drive)
                browser.take(shown.url, images / "trucks-map.png", PAGE_SIZE)
                replay = folder / "replay.html"
                replay.write_text(pages.HTML.read_text() + SLIDER.replace("MINUTES", "1.5"))
                pages.HTML = replay
                browser.take(shown.url, images / "trucks-history.png", PAGE_SIZE)
                text = folder / "sql.html"
                text.write_text(answers(project))
                browser.take(text.as_uri(), images / "sql.png", TEXT_SIZE)
        finally:
            shown.stop()
            drive.stop()


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(
        prog="./run screenshots",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--into", type=Path, default=IMAGES, help="the folder of the pictures")
    options = parser.parse_args(arguments)
    options.into.mkdir(parents=True, exist_ok=True)
    take_all(options.into)


if __name__ == "__main__":
    main(sys.argv[1:])
