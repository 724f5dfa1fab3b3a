"""`./run screenshots console`: take the console's pictures of docs/images/ anew, of a real cluster
with traffic, in Chromium. Takes a minute.

    console-cluster.png  a broker has just died: the finding, and the next step
    console-topics.png   topics with sizes, rates, groups and lag
    console-records.png  records of a topic
    console-group.png    a group that is behind, and why
    console-nodes.png    nodes that a click kills, and the time line
    console-phone.png    the first page on a phone
"""

import argparse
import json
import random
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from raftka.testing import Cluster
from tests.kit.browser import WAIT_S, WHY_NOT, Browser, find_chromium, launch_browser

IMAGES = Path(__file__).parent.parent / "docs" / "images"
LARGEST_BYTES = 200_000
WIDE, TALL, LOW, PHONE = (1280, 860), (1280, 1000), (1280, 480), (390, 844)
TOPICS = ("orders:6", "payments:6", "shipments:3", "customers:3", "clicks:12", "orders.dlq:1")
WRITTEN = ("orders", "payments", "shipments", "clicks")
GROUPS = {"billing": ("payments", 0.0), "shipping": ("orders", 0.0), "reports": ("clicks", 0.05)}
PAUSE_S, RECORDS = 0.05, 40  # of the producer: at most so many after each pause
READY = (
    "document.querySelector('main h1') && !document.querySelector('.waiting') && "
    "!document.body.innerText.includes('Being read')"
)


class Picture(NamedTuple):
    name: str
    path: str  # after #
    condition: str = READY  # of JavaScript: what the picture is to show is there
    size: tuple[int, int] = WIDE
    dark: bool = False
    script: str = ""  # of JavaScript: run once the page is there
    within_s: float = WAIT_S


def shows(text: str) -> str:
    return f"document.body.innerText.includes({json.dumps(text)})"


ROWS = "document.querySelectorAll('td').length > 9"
RATES = "[...document.querySelectorAll('td:nth-child(6)')].every((td) => td.innerText !== '–')"
KNOWN = "![...document.querySelectorAll('.facts dd')].some((each) => each.innerText[0] === '–')"
RATE = "document.querySelector('.facts spark-line .line').getAttribute('d').split('L').length > 4"
BEFORE = (
    Picture("topics", "/topics", f"{READY} && {RATES}", LOW),
    Picture("records", "/topics/orders", f"{READY} && {KNOWN} && {ROWS}"),
    Picture("group", "/groups/reports", f"{READY} && {shows('clicks-0')}"),
    Picture("phone", "/", RATE, PHONE),
)
DEAD = (
    Picture("cluster", "/", f"{RATE} && {shows('2 of 3')} && {shows('fell out')}", TALL),
    Picture("nodes", "/nodes", f"{READY} && {shows('leader 2')}", dark=True),
)


@contextmanager
def traffic(cluster: Cluster) -> Iterator[None]:
    """Producers and consumers until the context ends."""
    over = threading.Event()
    threads = [threading.Thread(target=produce, args=(cluster, over))]
    for group, (topic, pause_s) in GROUPS.items():
        threads.append(
            threading.Thread(target=consume, args=(cluster, over, group, topic, pause_s))
        )
    for each in threads:
        each.start()
    try:
        yield
    finally:
        over.set()
        for each in threads:
            each.join()


def produce(cluster: Cluster, over: threading.Event) -> None:
    from confluent_kafka import Producer

    producer, chance, number = Producer(quiet(cluster)), random.Random(1), 0
    while not over.wait(PAUSE_S):
        for _ in range(chance.randrange(RECORDS)):
            number += 1
            customer = f"customer-{chance.randrange(50)}"
            value = {
                "id": number,
                "customer": customer,
                "total": round(chance.uniform(5, 300), 2),
                "items": [{"sku": f"A{chance.randrange(90)}", "count": chance.randrange(1, 5)}],
            }
            producer.produce(chance.choice(WRITTEN), json.dumps(value), key=customer)
        producer.poll(0)
    producer.flush(5)


def consume(
    cluster: Cluster, over: threading.Event, group: str, topic: str, pause_s: float
) -> None:
    """`pause_s`: after each record, so that the group falls behind."""
    from confluent_kafka import Consumer

    settings = {"group.id": group, "auto.offset.reset": "earliest", "client.id": f"{group}-1"}
    consumer = Consumer({**quiet(cluster), **settings})
    consumer.subscribe([topic])
    while not over.wait(pause_s):
        consumer.poll(0.2)
    consumer.close()


def quiet(cluster: Cluster) -> dict[str, object]:
    return {"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0}


def take(browser: Browser, url: str, picture: Picture) -> None:
    page = browser.open_page(width=picture.size[0], height=picture.size[1], dark=picture.dark)
    page.goto(f"{url}/#{picture.path}")
    if picture.script:
        page.wait_for(READY)
        page.evaluate(picture.script)
    page.wait_for(picture.condition, picture.within_s)
    target = IMAGES / f"console-{picture.name}.png"
    page.screenshot(target)
    browser.close_page(page)
    size = target.stat().st_size
    if size > LARGEST_BYTES:
        raise SystemExit(f"{target}: {size:,} bytes, {LARGEST_BYTES:,} are allowed")
    print(f"{target}: {size:,} bytes")


def main() -> None:
    argparse.ArgumentParser(prog="./run screenshots console", description=__doc__).parse_args()
    program = find_chromium()
    if program is None:
        raise SystemExit(WHY_NOT)
    with Cluster(3) as cluster, launch_browser(program) as browser:
        cluster.create_topics(*TOPICS)
        url = cluster.console_url.rstrip("/")
        with traffic(cluster):
            for each in BEFORE:
                take(browser, url, each)
            cluster.kill(2)
            for each in DEAD:
                take(browser, url, each)
            cluster.restart(2)


if __name__ == "__main__":
    main()
