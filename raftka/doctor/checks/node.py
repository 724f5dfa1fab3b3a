"""Checks of one node's properties file and of its machine: with `--config FILE`."""

from collections.abc import Iterator

from raftka.doctor.checks.finding import BAD, Found, count, examples, finds, has
from raftka.doctor.facts import Facts

EVERYBODY = {"User:*", "User:ANONYMOUS"}
MIN_FILES = 4_096
MIB = 2**20
OLD_JOURNAL_BYTES = 512 * MIB  # behind a snapshot; one is made every few MiB
USED = 0.9  # of a limit


@finds("file-refused", BAD)
def file_refused(facts: Facts) -> Iterator[Found]:
    node = facts.node
    if node is not None and node.refused is not None:
        yield Found(
            f"No node starts with {node.file}: {node.refused.rstrip('.')}.",
            f"raftka config show {node.file}",
        )


@finds("settings-not-used")
def settings_not_used(facts: Facts) -> Iterator[Found]:
    node = facts.node
    if node is not None and node.unused:
        number = len(node.unused)
        yield Found(
            f"{node.file} has {count(number, 'setting')} that {has(number, 'does', 'do')} nothing "
            f"in raftka ({examples(node.unused)}): settings of threads, sockets and the JVM were "
            "copied; remove them.",
            f"raftka config show {node.file} --given",
        )


@finds("directory-not-writable", BAD)
def directory_not_writable(facts: Facts) -> Iterator[Found]:
    for each in facts.node.directories if facts.node is not None else ():
        if each.error is not None:
            yield Found(
                f"Log directory {each.path} cannot be written ({each.error}): mount it for "
                "writing, or give it to the user that the node runs as.",
                f"findmnt -T {each.there}; ls -ld {each.there}",
            )


@finds("address-not-listening", BAD)
def address_not_listening(facts: Facts) -> Iterator[Found]:
    """A port of its own may be right behind a proxy: then something answers there."""
    if facts.node is None:
        return
    dead = {(each.host, each.port) for each in facts.endpoints if each.error is not None}
    for listener, (host, port, own) in facts.node.advertised.items():
        if port != own and (host, port) in dead:
            yield Found(
                f"Listener {listener} of {facts.node.file} is at port {own}, and "
                f"advertised.listeners names {host}:{port}, where nothing answers: let the ports "
                "agree.",
                f"raftka config show {facts.node.file} --given",
            )


@finds("super-user-anybody", BAD)
def super_user_anybody(facts: Facts) -> Iterator[Found]:
    node = facts.node
    if node is not None and (anybody := sorted(EVERYBODY & set(node.super_users))):
        yield Found(
            f"super.users of {node.file} has {examples(anybody)}: clients that do not log in may "
            "do everything; name the administrators.",
            f"raftka config show {node.file} --given",
        )


@finds("everyone-without-acl")
def everyone_without_acl(facts: Facts) -> Iterator[Found]:
    node = facts.node
    if node is not None and node.allows_everyone:
        yield Found(
            f"{node.file} allows everybody everything on resources without an ACL: set "
            "allow.everyone.if.no.acl.found=false.",
            f"raftka config show {node.file} --given",
        )


@finds("machine-files")
def machine_files(facts: Facts) -> Iterator[Found]:
    most = facts.node.machine.max_files if facts.node is not None else -1
    if 0 <= most < MIN_FILES:
        yield Found(
            f"A node of this machine may open {most:,} files, {MIN_FILES:,} are the least: raise "
            "LimitNOFILE of its unit.",
            "raftka generate systemd",
        )


@finds("machine-limits", BAD)
def machine_limits(facts: Facts) -> Iterator[Found]:
    if facts.node is None:
        return
    machine = facts.node.machine
    if machine.aio_max > 0 and machine.aio_used > USED * machine.aio_max:
        yield Found(
            f"Of {machine.aio_max:,} asynchronous disk requests of this machine "
            f"{machine.aio_used:,} are taken, and nodes flush by them: raise fs.aio-max-nr.",
            "sysctl fs.aio-max-nr=1048576",
        )
    if machine.memory_max > 0 and machine.memory_used > USED * machine.memory_max:
        yield Found(
            f"The control group uses {machine.memory_used // MIB:,} of "
            f"{machine.memory_max // MIB:,} MiB: at the limit the kernel ends processes; raise "
            "MemoryMax.",
            "systemctl show -p MemoryMax -p MemoryCurrent raftka",
        )
    if machine.swapped > 0:
        yield Found(
            f"{machine.swapped // MIB + 1:,} MiB of the node are swapped out, which stops its loop "
            "for disk reads: give it memory, and set vm.swappiness=1.",
            "sysctl vm.swappiness=1",
        )


@finds("snapshot-old")
def snapshot_old(facts: Facts) -> Iterator[Found]:
    node = facts.node
    if node is not None and node.journal_bytes > OLD_JOURNAL_BYTES:
        age = (
            "there is no snapshot"
            if node.snapshot_age_ms is None
            else f"the snapshot is {node.snapshot_age_ms // 3_600_000:,} h old"
        )
        yield Found(
            f"The metadata log of {node.file} has {node.journal_bytes // MIB:,} MiB and {age}: its "
            "start takes long; look for the event metadata_log_failed, and for room on the disk.",
            "raftka cluster describe",
        )
