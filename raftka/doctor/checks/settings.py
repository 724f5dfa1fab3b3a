"""Checks of settings that endanger records, or slow everybody."""

from collections.abc import Iterator

from raftka.doctor.checks.finding import BAD, Found, count, examples, finds, has, names
from raftka.doctor.facts import Facts, Topic

SAFE_FACTOR = 3
NAMED_TOPICS = 20  # of a command
INTERNAL = {  # topics that brokers create, by the setting that says how often they are kept
    "offsets.topic.replication.factor": "__consumer_offsets",
    "transaction.state.log.replication.factor": "__transaction_state",
    "share.coordinator.state.topic.replication.factor": "__share_group_state",
}
LOW_BYTES, LOW_PERCENT, LOW_OTHER = 100_000, 5, 1  # limits that stop nearly all work
EQUAL = (  # settings whose difference between brokers is a mistake
    "authorizer.class.name",
    "auto.create.topics.enable",
    "default.replication.factor",
    "min.insync.replicas",
    "raftka.log.flush",
    "unclean.leader.election.enable",
)
EDIT = "raftka config show --broker {} --given"


def _topics(facts: Facts) -> Iterator[Topic]:
    """Yield the topics of users."""
    return (each for each in facts.topics.values() if each.name not in INTERNAL.values())


def _spread(names: list[str], factor: int) -> str:
    """Return the command that gives topics more replicas."""
    return (
        f"raftka reassign plan {' '.join(names)} -r {factor} -f plan.json && "
        "raftka reassign execute plan.json -w"
    )


@finds("one-replica", BAD)
def one_replica(facts: Facts) -> Iterator[Found]:
    factor = min(SAFE_FACTOR, len(facts.alive))
    single = sorted(each.name for each in _topics(facts) if each.factor == 1)
    if single and factor > 1:
        yield Found(
            f"{count(len(single), 'topic')} {has(len(single), 'has', 'have')} one replica "
            f"({examples(single)}): a lost disk loses the records; add replicas.",
            _spread(single[:NAMED_TOPICS], factor),
        )


@finds("internal-topic-replicas", BAD)
def internal_topic_replicas(facts: Facts) -> Iterator[Found]:
    """Topics that are there, and settings of those to come."""
    factor = min(SAFE_FACTOR, len(facts.alive))
    for setting, topic in INTERNAL.items():
        known = facts.topics.get(topic)
        if known is not None and known.factor < factor:
            yield Found(
                f"Topic {topic} has {count(known.factor, 'replica')}: what it holds is lost with "
                "a disk, and coordinators with a broker; add replicas.",
                _spread([topic], factor),
            )
        low = [id for id, value in facts.setting(setting).items() if int(value) < factor]
        if known is None and low:
            yield Found(
                f"{names(low).capitalize()} {has(len(low), 'has', 'have')} {setting} below "
                f"{factor}: set it before {topic} is created.",
                EDIT.format(low[0]),
            )


@finds("default-replicas")
def default_replicas(facts: Facts) -> Iterator[Found]:
    low = [
        each for each, value in facts.setting("default.replication.factor").items() if value == "1"
    ]
    if low and len(facts.alive) > 1:
        yield Found(
            f"{names(low).capitalize()} {has(len(low), 'makes', 'make')} new topics with one "
            "replica: set default.replication.factor to 3 in the file and start again.",
            EDIT.format(low[0]),
        )


@finds("min-isr-one", BAD)
def min_isr_one(facts: Facts) -> Iterator[Found]:
    weak = sorted(
        each.name
        for each in facts.topics.values()
        if each.factor >= SAFE_FACTOR and each.settings.get("min.insync.replicas") == "1"
    )
    if weak:
        yield Found(
            f"{count(len(weak), 'topic')} {has(len(weak), 'has', 'have')} min.insync.replicas=1 "
            f"({examples(weak)}): with acks=all a record may be on one disk only; set 2.",
            f"raftka topics alter {' '.join(weak[:NAMED_TOPICS])} -c min.insync.replicas=2",
        )


@finds("min-isr-all")
def min_isr_all(facts: Facts) -> Iterator[Found]:
    strict = sorted(
        each.name
        for each in facts.topics.values()
        if 1 < each.factor <= int(each.settings.get("min.insync.replicas", "1"))
    )
    if strict:
        lower = facts.topics[strict[0]].factor - 1
        yield Found(
            f"{count(len(strict), 'topic')} {has(len(strict), 'needs', 'need')} every replica in "
            f"sync for acks=all ({examples(strict)}): one broker that restarts stops producers; "
            f"set min.insync.replicas to {lower}.",
            f"raftka topics alter {strict[0]} -c min.insync.replicas={lower}",
        )


@finds("unclean-election", BAD)
def unclean_election(facts: Facts) -> Iterator[Found]:
    setting = "unclean.leader.election.enable"
    risky = sorted(
        each.name for each in facts.topics.values() if each.settings.get(setting) == "true"
    )
    if risky:
        yield Found(
            f"{count(len(risky), 'topic')} {has(len(risky), 'allows', 'allow')} leaders from "
            f"outside the ISR ({examples(risky)}), which loses acknowledged records: forbid it.",
            f"raftka topics alter {' '.join(risky[:NAMED_TOPICS])} -c {setting}=false",
        )


@finds("flush-off-one-replica", BAD)
def flush_off_one_replica(facts: Facts) -> Iterator[Found]:
    """Only where the broker tells raftka.log.flush: Kafka never flushes by itself."""
    if "os" not in facts.setting("raftka.log.flush").values():
        return
    single = sorted(
        each.name
        for each in _topics(facts)
        if each.factor == 1 and each.settings.get("flush.messages") != "1"
    )
    if single:
        yield Found(
            f"raftka.log.flush=os, and {count(len(single), 'topic')} "
            f"{has(len(single), 'has', 'have')} one replica ({examples(single)}): a power cut "
            "loses acknowledged records; flush before the answer.",
            f"raftka topics alter {' '.join(single[:NAMED_TOPICS])} -c flush.messages=1",
        )


@finds("settings-differ")
def settings_differ(facts: Facts) -> Iterator[Found]:
    differing = [name for name in EQUAL if len(set(facts.setting(name).values())) > 1]
    if differing:
        values = facts.setting(differing[0])
        told = ", ".join(f"broker {each}: {value}" for each, value in sorted(values.items()))
        yield Found(
            f"Brokers differ in {examples(differing)} ({told}): what holds depends on the broker; "
            "let the files agree.",
            EDIT.format(min(values)),
        )


@finds("quota-for-everyone")
def quota_for_everyone(facts: Facts) -> Iterator[Found]:
    for each in facts.quotas:
        if any(name is not None for name in each.entity.values()):
            continue
        least = (
            LOW_BYTES
            if each.key.endswith("_byte_rate")
            else LOW_PERCENT
            if each.key == "request_percentage"
            else LOW_OTHER
        )
        if each.value < least:
            flags = " ".join(f"--default {kind}" for kind in sorted(each.entity))
            yield Found(
                f"The default quota {each.key}={each.value:g} of every {' and '.join(each.entity)} "
                "throttles everybody without a quota of its own: raise or delete it.",
                f"raftka quotas delete {each.key} {flags}",
            )
