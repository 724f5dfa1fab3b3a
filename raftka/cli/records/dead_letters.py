"""`raftka dead-letters`: counts of dead letters, and their redrive, as the console does it."""

from collections.abc import Mapping, Sequence

from raftka.cli.admin.client import connect
from raftka.cli.output import CommandFailed, command, show, warn
from raftka.cli.progress import Progress, progress
from raftka.client.blocking.client import Client
from raftka.console.dead_letters.letters import read_letter
from raftka.console.dead_letters.reading import read_forward
from raftka.console.dead_letters.redrive import Order, Plan, Redrive, State, plan_redrive
from raftka.console.dead_letters.selection import Filter, spans_of
from raftka.console.dead_letters.sent import Sent
from raftka.console.dead_letters.summary import Summary

COUNTED = ["failure", "origin", "letters", "message"]
SENT = ["topic", "letters", "reason"]


def _never() -> bool:
    return False


@command
def describe(topic: str, quiet: bool, bootstrap_server: str, output: str) -> None:
    counted = Summary()
    with connect(bootstrap_server) as client:
        spans = spans_of(client, topic)
        total = sum(end - begin for begin, end in spans.values())
        with progress("counting", total, "records", quiet=quiet) as shown:
            for forward, records in read_forward(client, spans, _never):
                for letter in map(read_letter, records):
                    counted.add(letter)
                shown.update(forward.done)
    rows = [
        {
            "failure": each["kind"],
            "origin": each["origin"],
            "letters": each["letters"],
            "message": each["message"],
        }
        for each in counted.as_json(total, total)["counts"]
    ]
    show(rows, COUNTED, output)


@command
def redrive(
    topic: str,
    letters: Sequence[str],
    kind: str | None,
    origin: str | None,
    unknown_origin: bool,
    grep: str | None,
    target: str | None,
    dry_run: bool,
    quiet: bool,
    bootstrap_server: str,
    output: str,
) -> None:
    if origin is not None and unknown_origin:
        raise CommandFailed("either --origin or --unknown-origin says which letters")
    wanted = Filter(
        kind, "" if unknown_origin else origin, grep or "", frozenset(map(_place, letters))
    )
    with connect(bootstrap_server) as client:
        order = Order(topic, spans_of(client, topic), wanted, target)
        with progress("reading" if dry_run else "sending", 0, "records", quiet=quiet) as shown:
            run = _plan if dry_run else _send
            by_target, refused = run(client, order, shown)
    rows = [{"topic": each, "letters": count} for each, count in sorted(by_target.items())]
    rows += [{"letters": count, "reason": each} for each, count in sorted(refused.items())]
    show(rows, SENT, output)


Counts = tuple[Mapping[str, int], Mapping[str, int]]  # by target, by reason


def _plan(client: Client, order: Order, shown: Progress) -> Counts:
    found = Plan()
    for plan, done, _ in plan_redrive(client, order, Sent(), 0, _never):
        found = plan
        shown.update(done)
    return found.by_target, found.refused


def _send(client: Client, order: Order, shown: Progress) -> Counts:
    done = Redrive(order, Sent())

    def look() -> bool:
        shown.update(done.done)
        return False

    done.run(client, look)
    if done.in_doubt:
        warn(f"{done.in_doubt} letters may have been sent: the broker's answer was lost")
    if done.state is State.FAILED:
        raise CommandFailed(f"{done.error}; {done.sent} letters were sent before")
    return done.by_target, done.refused


def _place(text: str) -> tuple[int, int]:
    partition, _, offset = text.partition("@")
    if not all(
        each.isascii() and each.isdigit() and len(each) < 19 for each in (partition, offset)
    ):
        raise CommandFailed(f"--letter {text}: it is PARTITION@OFFSET")
    return int(partition), int(offset)
