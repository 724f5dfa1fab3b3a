"""`raftka cluster recover FILE`: begin a metadata quorum anew from the one controller that is left.
Explains, asks, writes down the losses.

Runs on that controller's machine while it is stopped; opens no connection.
"""

import os
import sys
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from random import SystemRandom

from raftka.cluster.properties import parse
from raftka.metadata.configs.settings import METADATA_DIRECTORY, NodeSettings
from raftka.metadata.quorum.journal import Journal, WrongDirectory
from raftka.metadata.quorum.journal_format import JournalDamaged
from raftka.metadata.quorum.recovery import (
    LOST_AT_MOST,
    NotRecoverable,
    Remains,
    begin_anew,
    read_remains,
)
from raftka.runtime.real.files import RealFiles
from raftka.versions import NewerFormat

USAGE, FAILED = 2, 1
ASKED = "Type the cluster's id to go on: "


def recover(file: str, *, yes: bool, ask: Callable[[str], str] = input) -> int:
    """Begin the quorum anew from the node whose properties `file` has. Return the exit code."""
    try:
        settings = NodeSettings.from_properties(parse(Path(file).read_text(encoding="utf-8")))
        if not settings.is_controller:
            raise ValueError(
                f"node {settings.node_id} is no controller: take one whose process.roles says so"
            )
        directory = settings.metadata_directory
        if not os.path.isdir(directory):
            raise ValueError(f"there is no {directory}")
    except (OSError, ValueError) as error:
        return _complain(f"{file}: {error}", USAGE)
    try:
        return _recover(settings, directory, yes=yes, ask=ask)
    except BlockingIOError:
        return _complain(f"{directory} is in use: stop node {settings.node_id} first", FAILED)
    except (OSError, NotRecoverable, JournalDamaged, WrongDirectory, NewerFormat) as error:
        return _complain(str(error), FAILED)


def _recover(
    settings: NodeSettings, directory: str, *, yes: bool, ask: Callable[[str], str]
) -> int:
    written_at = (
        datetime.fromtimestamp(os.path.getmtime(f"{directory}/journal"), UTC)
        if os.path.exists(f"{directory}/journal")
        else None
    )
    journal = Journal.open(RealFiles(lambda done: done()), directory, settings.node_id)
    try:
        remains = read_remains(journal)
        voters = [voter.node_id for voter in settings.voters]
        report = given_up(remains, voters, written_at)
        print(report)
        print(BEFORE)
        if not yes and not _agreed(remains.cluster_id, ask):
            return _complain("nothing was changed", FAILED)
        begin_anew(journal, remains, voters, report, SystemRandom())
        path = Path(directory) / f"recovery-{remains.last_index}.txt"
        path.write_text(report, encoding="utf-8")
    finally:
        journal.close()
    others = [each for each in voters if each != settings.node_id]
    print(after(others, ",".join(f"{v.node_id}@{v.host}:{v.port}" for v in settings.voters), path))
    return 0


def _agreed(cluster_id: str, ask: Callable[[str], str]) -> bool:
    try:
        return ask(ASKED).strip() == cluster_id
    except (EOFError, KeyboardInterrupt):
        print()
        return False


def given_up(remains: Remains, voters: Sequence[int], written_at: datetime | None) -> str:
    """Describe the state that is kept, and the state that is lost with the other voters."""
    image = remains.image
    brokers = ", ".join(map(str, sorted(image.brokers))) or "none"
    last = (
        f"last written {written_at:%Y-%m-%d %H:%M:%S} UTC"
        if written_at is not None
        else "the time of the last write is not known"
    )
    return f"""Cluster {remains.cluster_id} begins anew from what controller {remains.node_id} has.

What it has
  the metadata up to entry {remains.last_index:,} of term {remains.last_term}, {last}
  {len(image.topics):,} topics with {image.partition_count:,} partitions; brokers {brokers}
  {remains.unsure:,} entries are newer than its snapshot. The last of them may never have been
  confirmed; all of them hold from now on.

What is given up: whatever the other controllers had confirmed and this one had not received,
such as
  topics created since: they are not there any more; their logs stay on the brokers' disks, unused,
    until you remove them
  topics deleted, partitions moved and settings changed since: all is as before
  replicas in sync: one that had fallen behind since may lead, and records that were
    acknowledged without it are lost
  access and other state that was kept in the metadata: as before

So that no number is given out twice, offsets and epochs go up by {LOST_AT_MOST:,} and producer ids
by a thousand times that.
The new quorum: {", ".join(map(str, sorted(voters)))}."""


BEFORE = """
Before you go on
  Be sure that a majority of the controllers is lost for good: while it can come back, nothing
    needs to be given up.
  Of several that are left take the one with the newest metadata: run this on each and answer
    nothing.
  Stop every broker.
"""


def after(others: Sequence[int], voters: str, report: Path) -> str:
    """Describe the operator's next steps."""
    empty = (
        f"Empty the metadata directory ({METADATA_DIRECTORY}) of {', '.join(map(str, others))}; "
        "the logs beside it stay."
        if others
        else ""
    )
    start = (
        "Start all controllers: the quorum begins when the last of them is there."
        if others
        else "Start this controller: it is the quorum."
    )
    steps = [
        f"Set controller.quorum.voters={voters} in every node's file.",
        empty,
        start,
        "Start the brokers.",
    ]
    lines = [f"  {number}. {step}" for number, step in enumerate(filter(None, steps), 1)]
    return "\n".join([f"Done. What was given up is written in {report}.", "", "Now", *lines])


def _complain(text: str, code: int) -> int:
    print(f"raftka: {text}", file=sys.stderr, flush=True)
    return code
