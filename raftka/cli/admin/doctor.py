"""`raftka doctor`: findings about a cluster, and the next step for each. Speaks Kafka's protocol
alone; with `--config FILE` it looks at that node and its machine, too.
"""

import json
import shlex
from collections.abc import Sequence
from pathlib import Path

import click

from raftka.cli.admin.client import command_security, connect
from raftka.cli.connection_options import chosen
from raftka.cli.output import CommandFailed, command, fail, printable, warn
from raftka.client.blocking.connection import ClientError, addresses_of
from raftka.doctor.checks.finding import Finding
from raftka.doctor.checks.table import by_subject, examine
from raftka.doctor.gathering.facts import gather, only_places
from raftka.doctor.gathering.node import read_node
from raftka.wire.errors import KafkaError

SOUND, FINDINGS, NOT_REACHABLE = 0, 1, 2  # exit codes
PATIENCE_S = 5.0  # for an answer: the cluster may be ill
OF_CONNECTION = ("--bootstrap-server", "--profile", "--command-config")


@command
def diagnose(file: Path | None, bootstrap_server: str, output: str) -> None:
    node = read_node(file) if file is not None else None
    try:
        with connect(bootstrap_server, patience_s=PATIENCE_S, answer_s=PATIENCE_S) as client:
            facts = gather(client, node)
    except (CommandFailed, ClientError, KafkaError, OSError) as error:
        security = command_security()
        facts = only_places(addresses_of(bootstrap_server), node, with_tls=security.uses_tls)
        _show(examine(facts), output)
        raise SystemExit(fail(str(error), NOT_REACHABLE)) from None
    for subject, why in sorted(facts.unknown.items()):
        warn(f"not looked at: {subject} ({why})")
    found = examine(facts)
    _show(found, output)
    if not found and output == "text":
        print(f"nothing found in {len(list(by_subject()))} checks")
    raise SystemExit(FINDINGS if found else SOUND)


def _show(found: Sequence[Finding], output: str) -> None:
    for each in found:
        step = _with_connection(each.command)
        if output == "json":
            row = {"finding": each.kind, "level": each.level, "text": each.text, "next": step}
            print(json.dumps(row))
        else:
            print(printable(f"{each.level:4}  {each.kind}: {each.text}"))
            print(printable(f"      next: {step}"))


def _with_connection(step: str) -> str:
    """Add the options with which this command found the cluster, so that the next one does."""
    given = chosen(click.get_current_context(silent=True)).given
    options = "".join(
        f" {name} {shlex.quote(given[name])}" for name in OF_CONNECTION if name in given
    )
    return " && ".join(
        each.replace("raftka", f"raftka{options}", 1) if each.startswith("raftka ") else each
        for each in step.split(" && ")
    )
