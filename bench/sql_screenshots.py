"""`./run screenshots sql`: take the pictures of SQL in docs/images/ anew, of a real cluster with
traffic and a real Spark: the console's page in Chromium, and the prompt on a terminal.

    console-sql.png  the page: a statement, its answer, a query that goes on
    sql-prompt.svg   the prompt: a stream, a table, an error with its caret, rows as they come
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager

import raftka.sql
from bench.console_screenshots import IMAGES, TOPICS, Picture, shows, take, traffic
from bench.terminal_picture import PicturedTerminal
from raftka.client.blocking.connection import addresses_of
from raftka.console.sql.target import wanted_of
from raftka.testing import Cluster
from tests.kit.browser import WHY_NOT, find_chromium, launch_browser

WAIT_S = 240.0  # for Spark, where nothing else runs ten seconds
TOTALS = 5  # customers that are shown
QUESTION = "select customer, orders, total from totals order by total desc limit 5"
TYPED = (
    "create stream orders (customer string, total double);",
    "create table totals as\rselect customer, count(*) as orders, round(sum(total)) as total\r"
    "from orders group by customer;",
    f"{QUESTION.replace('5', '4')};",
    "select customr from orders;",
    "select * from orders where total > 290\remit changes from beginning limit 3;",
)
READY = "runs, http"  # in the line below the prompt, of which changed letters alone are written
ENDS = (
    r"is a stream over",
    r"writes to the topic",
    r"4 rows \(",
    r"\n +\^",
    r"3 rows \(",
)
RUN = f"""(() => {{
    document.querySelector("#sql-text").value = {json.dumps(QUESTION + ";")};
    document.querySelector(".sql-form").requestSubmit();
}})()"""
PAGE = Picture("sql", "/sql", shows("5 rows ("), (1280, 860), script=RUN, within_s=WAIT_S)


@contextmanager
def own_state() -> Iterator[None]:
    """The SQL server of the pictures is not the user's own."""
    before = os.environ.get("XDG_STATE_HOME")
    with tempfile.TemporaryDirectory(prefix="raftka-screenshots-") as folder:
        os.environ["XDG_STATE_HOME"] = folder
        try:
            yield
        finally:
            del os.environ["XDG_STATE_HOME"]
            if before is not None:
                os.environ["XDG_STATE_HOME"] = before


def wait_for_totals(bootstrap: str) -> None:
    """Return when the table of the pictures has rows."""
    connection = raftka.sql.connect(bootstrap)
    deadline = time.monotonic() + WAIT_S
    while len(list(connection.execute(QUESTION))) < TOTALS:
        if time.monotonic() > deadline:
            raise SystemExit("the table of the pictures stays empty")
        time.sleep(1)


def take_prompt(command: list[str], bootstrap: str) -> None:
    """Type the statements, and draw the terminal."""
    with PicturedTerminal(command, dict(os.environ)) as terminal:
        terminal.patience_s = WAIT_S
        terminal.wait_for(READY)
        for text, end in zip(TYPED, ENDS, strict=True):
            if QUESTION[:30] in text:
                wait_for_totals(bootstrap)
            for line in text.splitlines():
                terminal.type(f"{line}\r")
            terminal.wait_for(end)
            terminal.wait_for("sql>")
        terminal.wait_for(READY)
        target = IMAGES / "sql-prompt.svg"
        target.write_text(terminal.screen.picture())
        print(f"{target}: {target.stat().st_size:,} bytes")


def main() -> None:
    argparse.ArgumentParser(prog="./run screenshots sql", description=__doc__).parse_args()
    program = find_chromium()
    if program is None:
        raise SystemExit(WHY_NOT)
    with own_state(), Cluster(3) as cluster, launch_browser(program) as browser:
        cluster.create_topics(*TOPICS)
        bootstrap = wanted_of(addresses_of(cluster.bootstrap_servers), {}).bootstrap
        command = [sys.executable, "-m", "raftka.cli", "sql"]
        try:
            with traffic(cluster):
                take_prompt([*command, "-b", bootstrap], bootstrap)
                take(browser, cluster.console_url.rstrip("/"), PAGE)
        finally:
            subprocess.run([*command, "stop", "-b", bootstrap], check=False)


if __name__ == "__main__":
    main()
