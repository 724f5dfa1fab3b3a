"""All checks, by the subject that they are about, and what they find."""

from collections.abc import Iterator
from types import ModuleType

from raftka.doctor.checks import brokers, node, partitions, quorum, security, settings, users
from raftka.doctor.checks.finding import BAD, CHECKS, Finding, Registered
from raftka.doctor.facts import Facts

SUBJECTS: dict[str, ModuleType] = {
    "Brokers and disks": brokers,
    "Partitions": partitions,
    "Controllers": quorum,
    "Settings": settings,
    "Certificates, logins, rights": security,
    "Groups and transactions": users,
    "A node and its machine (--config FILE)": node,
}


def examine(facts: Facts) -> list[Finding]:
    """Return the findings of all checks, the worst first."""
    found = [Finding(each.kind, each.level, *one) for each in CHECKS for one in each.check(facts)]
    return sorted(found, key=lambda each: each.level != BAD)


def by_subject() -> Iterator[tuple[str, Registered]]:
    """Yield each check with its subject, in the order of the table."""
    for subject, module in SUBJECTS.items():
        for each in CHECKS:
            if each.check.__module__ == module.__name__:
                yield subject, each
