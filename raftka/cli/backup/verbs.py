"""The commands of `raftka backup`: answers as tables or JSON, failures as one line."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from random import SystemRandom

from raftka.backup import catalogue
from raftka.backup import create as creating
from raftka.backup import drill as drilling
from raftka.backup import restore as restoring
from raftka.backup import verify as verifying
from raftka.backup.errors import BackupError
from raftka.backup.manifest import Manifest
from raftka.backup.moment import as_of
from raftka.backup.places import Place, open_place
from raftka.cli.admin.client import connect
from raftka.cli.output import CommandFailed, command, show
from raftka.cluster.processes import ClusterFailed
from raftka.cluster.properties import parse
from raftka.json_values import Json
from raftka.log.directory import LogDirectoryError
from raftka.metadata.configs.settings import NodeSettings
from raftka.runtime.real.files import RealFiles
from raftka.versions import NewerFormat


@contextmanager
def _opened(where: str) -> Iterator[tuple[Place, RealFiles]]:
    """Open a place, with the files of this machine. Raises CommandFailed."""
    files = RealFiles(lambda done: done())
    try:
        yield open_place(where, files), files
    except (BackupError, ClusterFailed, LogDirectoryError, NewerFormat, ValueError) as error:
        raise CommandFailed(str(error)) from None
    finally:
        files.stop()


@command
def create(where: str, name: str | None, bootstrap_server: str, output: str) -> None:
    with _opened(where) as (place, files), connect(bootstrap_server) as client:
        made = creating.create(client, place, files, name)
    row: dict[str, Json] = {
        **_row(made.manifest),
        "linked": made.linked_bytes,
        "copied": made.copied_bytes,
        "known": made.known_bytes,
        "held_ms": made.manifest.held_ms,
        "took_s": round(made.took_s, 3),
    }
    show([row], list(row), output)


@command
def list_all(where: str, output: str) -> None:
    with _opened(where) as (place, _):
        rows = [_row(manifest) for manifest in catalogue.manifests_in(place)]
        broken = catalogue.unfinished(place)
    show(rows, ["backup", "cut", "bytes", "offsets", "topics", "cluster_id"], output)
    for name in broken:
        print(
            f"raftka: {name} is not finished: it is being made, or was broken off; it is no "
            "backup, and the next `raftka backup create` removes what was",
            file=sys.stderr,
        )


@command
def verify(where: str, name: str | None, output: str) -> None:
    with _opened(where) as (place, _):
        manifest = catalogue.find(place, name)
        found = verifying.verify(place, manifest)
    row: dict[str, Json] = {
        "backup": manifest.name,
        "topics": found.topics,
        "partitions": found.partitions,
        "batches": found.batches,
        "records": found.records,
        "bytes": found.bytes,
        "groups": len(found.groups),
        "committed": found.offsets,
        "transactional_ids": found.transactional_ids,
    }
    show([row], list(row), output)


@command
def restore(
    where: str,
    name: str | None,
    nodes: tuple[Path, ...],
    brokers: str | None,
    topics: str | None,
    moment: str | None,
    quiet: bool,
) -> None:
    settings = [_settings(path) for path in nodes]
    with _opened(where) as (place, files):
        manifest = catalogue.find(place, name)
        if moment is not None:
            manifest = as_of(place, manifest, _ms(moment))
        ids = [int(each) for each in _listed(brokers)]
        plan = restoring.make_plan(manifest, settings, ids, _listed(topics))
        found = restoring.restore(place, plan, settings, files, SystemRandom(), _progress(quiet))
    print(
        f"{manifest.name} is restored: {found.partitions:,} partitions, {found.replicas:,} "
        f"replicas and {found.bytes:,} bytes on {found.nodes} nodes"
    )
    if found.kept_nodes:
        print(f"{found.kept_nodes} of these nodes were whole before")
    if moment is not None:
        print(f"as of {_time(manifest.cut_ms)}")
    print(f"aborted: {found.aborted:,} open transactions, once for each partition")
    if found.dropped_offsets:
        print(f"left out: {found.dropped_offsets:,} committed offsets of other topics")
    print(f"cluster id: {plan.cluster_id}; start all nodes: {_ids(plan.brokers)}")


@command
def drill(
    where: str,
    name: str | None,
    nodes: int,
    data: Path | None,
    quiet: bool,
    output: str,
) -> None:
    with _opened(where) as (place, files):
        manifest = catalogue.find(place, name)
        found = drilling.drill(place, manifest, files, data, nodes, _progress(quiet))
    row: dict[str, Json] = {
        "backup": manifest.name,
        "nodes": found.nodes,
        "partitions": found.partitions,
        "bytes": found.bytes,
        "committed": found.offsets,
        "differing": len(found.differing),
        "rto_s": round(found.rto_s, 3),
        "rpo_s": round(found.rpo_s, 3),
    }
    show([row], list(row), output)
    if found.differing:
        raise CommandFailed(f"the restored cluster differs: {', '.join(found.differing[:10])}")


def _row(manifest: Manifest) -> dict[str, Json]:
    return {
        "backup": manifest.name,
        "cut": _time(manifest.cut_ms),
        "bytes": manifest.size,
        "offsets": manifest.offsets,
        "topics": len(manifest.topics),
        "cluster_id": manifest.cluster_id,
    }


def _time(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="milliseconds")


def _ms(moment: str) -> int:
    """Raises CommandFailed."""
    try:
        time = datetime.fromisoformat(moment)
    except ValueError:
        raise CommandFailed(f"--to {moment}: no time such as 2026-11-28T16:05:24") from None
    if time.tzinfo is None:
        time = time.replace(tzinfo=UTC)
    return int(time.timestamp() * 1000)


def _settings(path: Path) -> NodeSettings:
    try:
        return NodeSettings.from_properties(parse(path.read_text(encoding="utf-8")))
    except ValueError as error:
        raise CommandFailed(f"{path}: {error}") from None


def _progress(quiet: bool) -> Callable[[str], None]:
    return lambda text: None if quiet else print(f"{text} ...", file=sys.stderr, flush=True)


def _listed(text: str | None) -> list[str]:
    return [each.strip() for each in (text or "").split(",") if each.strip()]


def _ids(brokers: tuple[int, ...]) -> str:
    return ", ".join(map(str, brokers))
