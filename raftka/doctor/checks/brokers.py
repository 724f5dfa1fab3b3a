"""Checks of brokers: alive, reachable, with sound disks, clocks and versions."""

from collections import Counter, defaultdict
from collections.abc import Iterator

from raftka.client.blocking.log_dirs import Directory
from raftka.doctor.checks.finding import BAD, Found, count, examples, finds, has, names
from raftka.doctor.facts import Broker, Facts
from raftka.doctor.gathering.places import is_loopback, is_own

DESCRIBE = "raftka cluster describe"
NEARLY_FULL = 0.85  # of a disk
CLOCK_MS = 2_000  # leases, retention and logins are in seconds
MIN_FILES = 4_096
FILES_USED = 0.8  # of those that a process may have
FILES_OF_REPLICA = 4  # log, two indexes, one that is being made
UNLIMITED = -1


@finds("broker-gone", BAD)
def broker_gone(facts: Facts) -> Iterator[Found]:
    for each in facts.brokers.values():
        if not each.is_alive:
            yield Found(
                f"Broker {each.node_id} is registered and not alive: start it, or move its "
                "replicas away and unregister it.",
                DESCRIBE,
            )


def _directories(facts: Facts) -> Iterator[tuple[Broker, Directory]]:
    return ((each, one) for each in facts.alive for one in each.directories)


@finds("disk-failed", BAD)
def disk_failed(facts: Facts) -> Iterator[Found]:
    for broker, each in _directories(facts):
        if each.error is not None:
            yield Found(
                f"Log directory {each.path or '(unnamed)'} of broker {broker.node_id} is offline "
                f"({each.error}): mend or replace the disk, then start the broker again.",
                DESCRIBE,
            )


@finds("disk-nearly-full", BAD)
def disk_nearly_full(facts: Facts) -> Iterator[Found]:
    for broker, each in _directories(facts):
        if each.total > 0 and (used := 1 - each.usable / each.total) >= NEARLY_FULL:
            largest = max(each.sizes, key=lambda where: each.sizes[where], default=None)
            step = (
                f"raftka topics alter {largest[0]} -c retention.ms=86400000"
                if largest
                else DESCRIBE
            )
            yield Found(
                f"The disk of {each.path} of broker {broker.node_id} is {used:.0%} full: shorten "
                "the retention of its largest topic, or add space.",
                step,
            )


@finds("disk-below-retention")
def disk_below_retention(facts: Facts) -> Iterator[Found]:
    """Topics may grow to retention.bytes a partition; where that is not set it says nothing."""
    for broker, each in _directories(facts):
        bound, largest = 0, ("", 0)
        for topic, _ in each.sizes:
            known = facts.topics.get(topic)
            bytes_kept = int(known.settings.get("retention.bytes", "-1")) if known else -1
            if bytes_kept > 0:
                bound += bytes_kept
                largest = max(largest, (topic, bytes_kept), key=lambda one: one[1])
        if each.total > 0 and bound > each.total:
            yield Found(
                f"Replicas in {each.path} of broker {broker.node_id} may grow to {bound:,} bytes "
                f"by retention.bytes, its disk has {each.total:,}: lower it, that of {largest[0]} "
                "first.",
                f"raftka topics alter {largest[0]} -c retention.bytes=1073741824",
            )


@finds("clock-differs", BAD)
def clock_differs(facts: Facts) -> Iterator[Found]:
    """By the metrics pages of brokers, and by the quorum's leader."""
    clocks = {
        each.node_id: each.clock_ahead_ms for each in facts.alive if each.clock_ahead_ms is not None
    }
    if facts.leader_ahead_ms is not None and facts.quorum is not None:
        clocks.setdefault(facts.quorum.leader, facts.leader_ahead_ms)
    for node_id, ahead_ms in sorted(clocks.items()):
        if abs(ahead_ms) >= CLOCK_MS:
            way = "ahead of" if ahead_ms > 0 else "behind"
            yield Found(
                f"The clock of node {node_id} is {abs(ahead_ms) / 1000:,.1f} s {way} this "
                "machine's: let NTP set both (chronyc tracking, timedatectl).",
                DESCRIBE,
            )


@finds("open-file-limit", BAD)
def open_file_limit(facts: Facts) -> Iterator[Found]:
    for each in facts.alive:
        most = each.metrics.get("process_max_fds", 0)
        used = each.metrics.get("process_open_fds", 0)
        replicas = sum(len(one.sizes) for one in each.directories)
        need = max(MIN_FILES, FILES_OF_REPLICA * replicas)
        if most > 0 and (most < need or used > FILES_USED * most):
            yield Found(
                f"Broker {each.node_id} may open {most:,.0f} files and has {used:,.0f} open, "
                f"{need:,} would be right: raise LimitNOFILE of its unit and start it again.",
                "raftka generate systemd",
            )


@finds("address-unreachable", BAD)
def address_unreachable(facts: Facts) -> Iterator[Found]:
    of = {each.address: each.node_id for each in facts.brokers.values()}
    for each in facts.endpoints:
        if each.error is not None:
            owner = of.get((each.host, each.port))
            whose = "" if owner is None else f", which broker {owner} advertises,"
            yield Found(
                f"{each.host}:{each.port}{whose} cannot be reached from here ({each.error}): "
                "correct advertised.listeners, the name service, or the firewall.",
                DESCRIBE if owner is not None else f"getent ahosts {each.host}",
            )


@finds("address-loopback", BAD)
def address_loopback(facts: Facts) -> Iterator[Found]:
    """An address of loopback is right where clients reach the cluster by loopback alone."""
    if not facts.bootstrap or all(is_own(host) for host, _ in facts.bootstrap):
        return
    for each in facts.endpoints:
        if each.ips and all(map(is_loopback, each.ips)):
            node_id = next(
                one.node_id for one in facts.brokers.values() if one.address[:2] == each[:2]
            )
            yield Found(
                f"Broker {node_id} advertises {each.host}:{each.port}, which is each client's own "
                "machine: set advertised.listeners to a name that other hosts resolve.",
                f"raftka config show --broker {node_id} --given",
            )


@finds("address-shared", BAD)
def address_shared(facts: Facts) -> Iterator[Found]:
    by_address = defaultdict(list)
    for each in facts.alive:
        by_address[each.address].append(each.node_id)
    for (host, port), ids in by_address.items():
        if len(ids) > 1:
            yield Found(
                f"{names(ids).capitalize()} advertise the same address, {host}:{port}: clients "
                "reach one of them under the name of the others; correct advertised.listeners.",
                DESCRIBE,
            )


@finds("address-of-another", BAD)
def address_of_another(facts: Facts) -> Iterator[Found]:
    for each in facts.alive:
        if each.other_node is not None:
            yield Found(
                f"At {each.host}:{each.port}, which broker {each.node_id} advertises, broker "
                f"{each.other_node} answers: correct advertised.listeners of both.",
                DESCRIBE,
            )


@finds("versions-mixed")
def versions_mixed(facts: Facts) -> Iterator[Found]:
    """Brokers of one release announce the same APIs and features."""
    told = [(each.node_id, (each.apis, each.levels)) for each in facts.alive if each.apis]
    kinds: list[tuple[object, list[int]]] = []
    for node_id, shown in told:
        same = next((ids for other, ids in kinds if other == shown), None)
        if same is None:
            kinds.append((shown, [node_id]))
        else:
            same.append(node_id)
    if len(kinds) > 1:
        few = min((ids for _, ids in kinds), key=lambda ids: (len(ids), ids))
        yield Found(
            f"{names(few).capitalize()} {has(len(few), 'announces', 'announce')} other versions "
            "of APIs than the others: complete the upgrade, one broker at a time.",
            "raftka features describe",
        )


@finds("features-not-finalised")
def features_not_finalised(facts: Facts) -> Iterator[Found]:
    """Of the features that follow releases; others are choices."""
    low = []
    for name in ("metadata.version", "raftka.version"):
        highest = [each.levels[name][1] for each in facts.alive if name in each.levels]
        if highest and 0 < facts.levels.get(name, 0) < min(highest):
            low.append(f"{name} is {facts.levels[name]} of {min(highest)}")
    if low:
        yield Found(
            f"All brokers support a later release than is finalised ({examples(low)}): finalise "
            "it when no downgrade is wanted any more.",
            "raftka features upgrade --dry-run && raftka features upgrade",
        )


@finds("racks-missing")
def racks_missing(facts: Facts) -> Iterator[Found]:
    without = sorted(each.node_id for each in facts.alive if not each.rack)
    if without and len(without) < len(facts.alive):
        yield Found(
            f"{names(without).capitalize()} {has(len(without), 'has', 'have')} no broker.rack, "
            "and others have one: replicas are not kept apart there; set it and start again.",
            DESCRIBE,
        )


@finds("replicas-in-one-rack")
def replicas_in_one_rack(facts: Facts) -> Iterator[Found]:
    racks = {each.node_id: each.rack for each in facts.alive}
    if None in racks.values() or len(set(racks.values())) < 2:
        return
    together: Counter[str] = Counter()
    for topic in facts.topics.values():
        for each in topic.partitions.values():
            if len(each.replicas) > 1 and len({racks.get(one) for one in each.replicas}) == 1:
                together[topic.name] += 1
    if together:
        name = min(together)
        yield Found(
            f"{count(together.total(), 'partition')} {has(together.total(), 'has', 'have')} all "
            f"replicas in one rack ({examples(sorted(together))}): spread them.",
            f"raftka reassign plan {name} -f plan.json && raftka reassign execute plan.json -w",
        )
