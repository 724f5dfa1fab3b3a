"""Programs that the blocks of the documents call, as a test runs them: `raftka` itself, on free
ports and smaller numbers, and stand-ins for those that install software or run for minutes.

    python -m tests.docs.stand_in PROGRAM ARGUMENT ...     (the programs of PROGRAMS)
"""

import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Callable, Sequence
from pathlib import Path

import click
import trio
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[2]
PIDS, ADDRESS = "BLOCKS_PIDS", "RAFTKA_BOOTSTRAP_SERVER"  # of the environment
# Commands that run until they are ended: the beginning of the line that says they are ready.
SERVERS = {
    ("cluster", "start"): "bootstrap.servers=",
    ("broker", "start"): "bootstrap.servers=",
    ("registry", "start"): "schema registry: ",
    ("console",): "console: ",
}
# Commands that are parsed here and not run, with the test that runs them.
RUN_ELSEWHERE = {
    ("demo",): "tests/cluster/test_demo.py",
    ("chaos", "live"): "tests/cli/test_chaos_live.py",
    ("chaos", "replay"): "tests/chaos/test_simulation.py",
    ("chaos", "shrink"): "tests/chaos/test_shrink.py",
    ("audit",): "tests/pipeline/test_audit.py",
    ("sql",): "tests/pipeline/test_sql.py",
    ("pipeline",): "tests/pipeline/test_project.py",
}
ENDLESS = "--follow"  # the same: such a command has no end
# Arguments in place of those of the page: free ports, and numbers for a test.
SMALLER = (
    (r"--base-port=\d+", "--base-port=0"),
    (r"--bridge-port=\d+", "--bridge-port=0"),
    (r"--data=/tmp/(\w+)", r"--data=\1"),
    (r"--to=\d\d:\d\d", "--to=1s"),  # a time of today may be to come: then it waits
    (r"--seeds=(\d+)-\d+", r"--seeds=\1-\1"),
    (r"--bootstrap-server=localhost:9092", "--bootstrap-server=$ADDRESS"),
)
ADDED: dict[tuple[str, ...], list[str]] = {
    ("cluster", "start"): ["--base-port=0"],
    ("broker", "start", "--dev"): ["--port=0"],
    ("registry", "start"): ["--port=0"],
    ("console",): ["--port=0", "--no-open"],
}
READY_S = 60.0


def raftka(arguments: list[str]) -> int:
    """Run the command line with smaller arguments; a server is left running, its pid noted. The
    cluster that commands use is the newest that was started so.
    """
    for log in sorted(Path(os.environ[PIDS]).parent.glob("*.log")):
        if found := re.search(r"^bootstrap\.servers=(.+)$", log.read_text(), re.MULTILINE):
            os.environ[ADDRESS] = found[1]
    arguments = smaller(arguments)
    words = tuple(arguments[:2])
    if any(words[: len(each)] == each for each in RUN_ELSEWHERE) or ENDLESS in arguments:
        parse(arguments)
        return 0
    for server, ready in SERVERS.items():
        if words[: len(server)] == server:
            return serve(arguments, ready)
    from raftka.cli import main

    sys.argv = ["raftka", *arguments]
    main()
    return 0


def smaller(arguments: Sequence[str]) -> list[str]:
    """Return the arguments with `--name value` as `--name=value`, changed as SMALLER says."""
    joined: list[str] = []
    for each in arguments:
        if joined and re.fullmatch(
            r"--(base-port|bridge-port|data|seeds|to|bootstrap-server)", joined[-1]
        ):
            joined[-1] += f"={each}"
        else:
            joined.append(each)
    for pattern, small in SMALLER:
        small = small.replace("$ADDRESS", os.environ.get(ADDRESS, "localhost:9092"))
        joined = [re.sub(f"^{pattern}$", small, each) for each in joined]
    given = {each.partition("=")[0] for each in joined}
    added = [
        each
        for words, options in ADDED.items()
        if tuple(joined[: len(words)]) == words
        for each in options
    ]
    return joined + [each for each in added if each.partition("=")[0] not in given]


def parse(arguments: Sequence[str]) -> None:
    """Parse a command with its options and run nothing; raises click.UsageError."""
    from raftka.cli.commands import root

    command: click.Command = root
    context = click.Context(root, info_name="raftka")
    left = list(arguments)
    while isinstance(command, click.Group):
        _, command, left = command.resolve_command(context, left)  # type: ignore[assignment]
    with command.make_context(command.name, left, parent=context):
        pass


def serve(arguments: Sequence[str], ready: str) -> int:
    """Start a server, wait for its line that begins with `ready`, and leave it running."""
    pids = Path(os.environ[PIDS])
    log = pids.with_name(f"{len(pids.read_text().split())}.log")
    with log.open("wb") as out:
        process = subprocess.Popen(
            [sys.executable, "-m", "raftka.cli", *arguments], stdout=out, stderr=out
        )
    with pids.open("a") as file:
        file.write(f"{process.pid}\n")

    async def wait() -> None:
        with trio.fail_after(READY_S):
            while not re.search(f"^{re.escape(ready)}", log.read_text(), re.MULTILINE):
                if process.poll() is not None:
                    raise SystemExit(f"raftka {' '.join(arguments)} ended: {log.read_text()}")
                await trio.sleep(0.02)

    trio.run(wait)
    print(log.read_text(), end="")
    return 0


def pip(arguments: list[str]) -> int:
    """Check the requirements and raftka's extras; install nothing."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"][
        "optional-dependencies"
    ]
    if arguments[:1] != ["install"]:
        raise SystemExit(f"pip {' '.join(arguments)}: only `pip install` stands in documents")
    for each in arguments[1:]:
        if each.startswith("-"):
            continue
        wanted = Requirement(re.sub(r"^\.(?=\[|$)", "raftka", each))
        if wanted.name == "raftka" and (missing := wanted.extras - extras.keys()):
            raise SystemExit(f"raftka has no extra {', '.join(sorted(missing))}")
    return 0


def run(arguments: list[str]) -> int:
    """Check that the checkout's `./run` has the command; run nothing, they take minutes."""
    script = (ROOT / "run").read_text()
    if not re.search(rf"^{re.escape(arguments[0])}\)$", script, re.MULTILINE):
        raise SystemExit(f"./run has no command {arguments[0]}")
    return 0


PROGRAMS: dict[str, Callable[[list[str]], int]] = {"raftka": raftka, "pip": pip, "run": run}

if __name__ == "__main__":
    try:
        raise SystemExit(PROGRAMS[sys.argv[1]](sys.argv[2:]))
    except click.UsageError as error:
        raise SystemExit(f"raftka: {error.format_message()}") from None
