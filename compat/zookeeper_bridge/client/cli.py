"""The verbs of `raftka bridge ...`: a client of the bridge, and for offsets one of Kafka's as well.
Knows no node.
"""

import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from functools import wraps
from typing import ParamSpec

from raftka.cli.admin.client import connect, finish
from raftka.cli.admin.groups import commit
from raftka.cli.output import CommandFailed, command, show
from raftka.client.blocking.client import Where
from raftka.client.blocking.groups import committed
from raftka.json_values import JsonObject
from zookeeper_bridge.client.address import Address
from zookeeper_bridge.client.blocking import Unreachable, ZooKeeperClient
from zookeeper_bridge.protocol.errors import Err, ZooKeeperError
from zookeeper_bridge.protocol.jute import Stat
from zookeeper_bridge.protocol.paths import ROOT, check_path, child_of
from zookeeper_bridge.tree.projection import BROKER_SESSION, number_of
from zookeeper_bridge.tree.rules import OWN, rule_of

P = ParamSpec("P")
OFFSETS = ["group", "topic", "partition", "offset"]
REASONS = {
    Err.NO_NODE: "there is no such znode",
    Err.NO_AUTH: "not allowed: authenticate with --digest",
    Err.BAD_ARGUMENTS: "not a path; paths look /like/this",
    Err.AUTH_FAILED: "the bridge does not take that digest",
    Err.SESSION_CLOSED_REQUIRE_SASL_AUTH: (
        "the bridge asks for a login: --digest, or a certificate with --tls-cert"
    ),
}


def bridged(verb: Callable[P, None]) -> Callable[P, int]:
    """A command, with what the bridge refuses as a sentence."""

    @command
    @wraps(verb)
    def framed(*args: P.args, **kwargs: P.kwargs) -> None:
        try:
            if "path" in kwargs:
                check_path(str(kwargs["path"]))
            verb(*args, **kwargs)
        except ZooKeeperError as error:
            raise CommandFailed(
                f"{kwargs.get('path') or 'the bridge'}: {REASONS.get(error.code, error.code.name)}"
            ) from None
        except Unreachable as error:
            raise CommandFailed(
                f"no bridge answers at {error}; is it on? --bridge HOST:PORT[,...] or "
                "RAFTKA_BRIDGE say where to ask"
            ) from None

    return framed


@bridged
def ls(path: str, recursive: bool, bridge: Address, output: str) -> None:
    with ZooKeeperClient(*bridge) as client:
        rows: Iterator[JsonObject] = (
            _below(client, path)
            if recursive
            else ({"name": name} for name in client.children(path))
        )
        show(rows, ["name"], output)


def _below(client: ZooKeeperClient, path: str) -> Iterator[dict[str, object]]:
    try:
        names = client.children(path)
    except ZooKeeperError as error:
        if error.code not in (Err.NO_NODE, Err.NO_AUTH) or path == ROOT:
            raise
        return
    for name in names:
        child = child_of(path, name)
        yield {"name": child}
        yield from _below(client, child)


@bridged
def get(path: str, bridge: Address) -> None:
    with ZooKeeperClient(*bridge) as client:
        data, _ = client.get(path)
        if data is not None:
            sys.stdout.buffer.write(data + b"\n" * sys.stdout.isatty())
            sys.stdout.flush()


@bridged
def stat(paths: tuple[str, ...], bridge: Address, output: str) -> None:
    with ZooKeeperClient(*bridge) as client:
        found = {path: client.stat(path) for path in paths}
        rows = [_row(path, each) for path, each in found.items() if each is not None]
        finish(
            rows,
            list(rows[0]) if rows else [],
            output,
            [f"{path}: {REASONS[Err.NO_NODE]}" for path, each in found.items() if each is None],
            own=True,
        )


def _row(path: str, seen: Stat) -> JsonObject:
    return {
        "path": path,
        "czxid": seen.czxid,
        "mzxid": seen.mzxid,
        "pzxid": seen.pzxid,
        "version": seen.version,
        "cversion": seen.cversion,
        "aversion": seen.aversion,
        "owner": _owner(seen.ephemeral_owner),
        "bytes": seen.data_length,
        "children": seen.num_children,
        "changed": datetime.fromtimestamp(seen.mtime / 1000, UTC).isoformat(timespec="milliseconds")
        if seen.mtime
        else None,
    }


def _owner(session: int) -> str | None:
    if session >= BROKER_SESSION:
        return f"broker {session - BROKER_SESSION}"
    return f"0x{session:x}" if session else None


@bridged
def watch(path: str, count: int | None, bridge: Address, output: str) -> None:
    with ZooKeeperClient(*bridge) as client:
        client.watch(path)
        seen = 0
        while count is None or seen < count:
            event, where = client.next_event()
            show(
                [{"event": event.name.lower(), "path": where}]
                if output == "json"
                else [{"line": f"{event.name.lower()} {where}"}],
                ["event", "path"] if output == "json" else ["line"],
                output,
                own=True,
            )
            sys.stdout.flush()
            seen += 1


@bridged
def explain(path: str, output: str) -> None:
    rule = rule_of(path) or OWN
    row = {
        "path": path,
        "rule": rule.pattern,
        "kind": rule.kind.value,
        "shows": rule.shows,
        "written": rule.written,
    }
    if output == "json":
        show([row], [], output)
    else:
        show([{"line": f"{name:8} {row[name]}"} for name in row], ["line"], output, own=True)


# offsets


@bridged
def export_offsets(
    name: str, dry_run: bool, bridge: Address, bootstrap_server: str, output: str
) -> None:
    with connect(bootstrap_server) as kafka:
        found = committed(kafka, name)
    if not found:
        raise CommandFailed(f"{name} has no offsets in Kafka")
    with ZooKeeperClient(*bridge) as client:
        for (topic, partition), offset in found.items():
            if not dry_run:
                client.put(f"/consumers/{name}/offsets/{topic}/{partition}", str(offset).encode())
    show(_offset_rows(name, found), OFFSETS, output)


@bridged
def import_offsets(
    name: str, dry_run: bool, bridge: Address, bootstrap_server: str, output: str
) -> None:
    with ZooKeeperClient(*bridge) as client:
        found = dict(_stored(client, name))
    if not found:
        raise CommandFailed(f"{name} has no offsets in /consumers/{name}/offsets")
    refused: list[str] = []
    if not dry_run:
        with connect(bootstrap_server) as kafka:
            refused = commit(kafka, name, found, {})
    bad = {text.partition(":")[0] for text in refused}
    done = {where: offset for where, offset in found.items() if f"{where[0]}-{where[1]}" not in bad}
    finish(_offset_rows(name, done), OFFSETS, output, refused)


def _stored(client: ZooKeeperClient, name: str) -> Iterator[tuple[Where, int]]:
    """Yield the stored offsets. Raises for a name that is no partition and a value that is no
    offset: an operator has to look at it.
    """
    folder = f"/consumers/{name}/offsets"
    if client.stat(folder) is None:
        return
    for topic in client.children(folder):
        for partition in client.children(f"{folder}/{topic}"):
            path = f"{folder}/{topic}/{partition}"
            data, _ = client.get(path)
            index, text = number_of(partition), (data or b"").decode("ascii", "replace").strip()
            if index is None or not text.isdigit():
                raise CommandFailed(
                    f"{path} holds {text!r:.40}, and should hold an offset of a partition"
                )
            yield (topic, index), int(text)


def _offset_rows(name: str, offsets: dict[Where, int]) -> list[dict[str, object]]:
    return [
        {"group": name, "topic": topic, "partition": partition, "offset": offset}
        for (topic, partition), offset in sorted(offsets.items())
    ]
