"""Facts about the node that a properties file describes, on the machine that it runs on."""

import os
import resource
import tempfile
import time
from pathlib import Path

from raftka.cluster.properties import parse
from raftka.doctor.facts import LocalDirectory, Machine, Node
from raftka.metadata.configs.settings import NodeSettings

PROC, CGROUP = Path("/proc"), Path("/sys/fs/cgroup")
PID_FILE = "raftka.pid"  # beside the properties file, while the node runs


def read_node(file: Path, proc: Path = PROC, cgroup: Path = CGROUP) -> Node:
    """Raises OSError for a file that cannot be read. `proc`, `cgroup`: where Linux shows limits."""
    text = file.read_text(encoding="utf-8")
    machine = read_machine(_pid_of(file), proc, cgroup)
    try:
        settings = NodeSettings.from_properties(parse(text))
    except ValueError as error:
        return Node(str(file), refused=str(error), machine=machine)
    ports = {each.listener: each.port for each in settings.listeners}
    age_ms, size = _metadata_log(Path(settings.metadata_directory))
    return Node(
        str(file),
        unused=settings.unused,
        directories=[_directory(each) for each in settings.log_dirs],
        advertised={
            each.listener: (each.host, each.port, ports[each.listener])
            for each in settings.advertised_listeners
            if each.listener not in settings.automatic_listeners
        },
        super_users=(settings["super.users"] or "").split(";"),
        allows_everyone=bool(settings["authorizer.class.name"])
        and settings["allow.everyone.if.no.acl.found"],
        machine=machine,
        snapshot_age_ms=age_ms,
        journal_bytes=size,
    )


def _pid_of(file: Path) -> int | None:
    """Return the process of the node; None where it does not run."""
    try:
        pid = int((file.absolute().parent / PID_FILE).read_text().split()[0])
        os.kill(pid, 0)
    except (OSError, ValueError, IndexError):
        return None
    return pid


def _directory(path: str) -> LocalDirectory:
    """Try to write a file there, or where the directory would be made."""
    folder = Path(path)
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    try:
        with tempfile.TemporaryFile(dir=folder):
            return LocalDirectory(path, str(folder), None)
    except OSError as error:
        return LocalDirectory(path, str(folder), error.strerror or str(error))


def _metadata_log(folder: Path) -> tuple[int | None, int]:
    """Return how old the snapshot is, None where there is none, and bytes of the journal."""
    journal, snapshot = folder / "journal", folder / "snapshot"
    try:
        size = journal.stat().st_size
    except OSError:
        return None, 0
    try:
        age_s = time.time() - snapshot.stat().st_mtime
    except OSError:
        return None, size
    return round(age_s * 1000), size


def read_machine(pid: int | None, proc: Path, cgroup: Path) -> Machine:
    """Return limits of the process, or of one that would be started here."""
    own = proc / str(pid) if pid is not None else None
    return Machine(
        _max_files(own) if own is not None else resource.getrlimit(resource.RLIMIT_NOFILE)[1],
        _number(proc / "sys/fs/aio-nr"),
        _number(proc / "sys/fs/aio-max-nr"),
        _number(cgroup / "memory.current"),
        _number(cgroup / "memory.max"),
        _swapped(own) if own is not None else -1,
    )


def _number(file: Path) -> int:
    """Return the number in a file; -1 where it has none, such as `max`."""
    try:
        return int(file.read_text())
    except (OSError, ValueError):
        return -1


def _max_files(process: Path) -> int:
    return _field(process / "limits", "Max open files", 3)


def _swapped(process: Path) -> int:
    kilobytes = _field(process / "status", "VmSwap:", 1)
    return kilobytes * 1024 if kilobytes >= 0 else -1


def _field(file: Path, begins: str, word: int) -> int:
    try:
        lines = file.read_text().splitlines()
        line = next(each for each in lines if each.startswith(begins))
        return int(line.split()[word])
    except (OSError, ValueError, StopIteration, IndexError):
        return -1
