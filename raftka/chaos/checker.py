"""Is what clients saw what a Kafka may show? All checks over one history, and what nodes knew
meanwhile; the answer is a Verdict. Pure.
"""

from collections.abc import Iterable, Sequence

from raftka.chaos import linearizable
from raftka.chaos.checks import commits, cycles, metadata, reads, watermarks, writes
from raftka.chaos.checks.rising import as_they_ended
from raftka.chaos.checks.versions import versions_of
from raftka.chaos.history import History, Operation
from raftka.chaos.linearizable import REGISTER_VERBS
from raftka.chaos.verdict import Findings, Outcome, Rules, Verdict


def check(
    history: History, rules: Rules | None = None, seen: Iterable[metadata.Seen] = ()
) -> Verdict:
    rules = rules or Rules()
    findings = Findings()
    versions = versions_of(history, rules, findings)
    ended = as_they_ended(history)
    writes.check(history, ended, versions, rules, findings)
    reads.check(history, versions, rules, findings)
    cycles.check(history, versions, rules, findings)
    watermarks.check(ended, findings)
    commits.check(history, ended, findings)
    metadata.check(seen, rules.unclean_elections, findings)
    given_up = linearizable.check(history, rules.linearizable_steps, findings)
    reason = _too_little(ended, rules)
    if given_up:
        reason = (
            f"whether {', '.join(given_up)} are linearizable took more than "
            f"{rules.linearizable_steps:,} steps"
        )
    outcome = (
        Outcome.VIOLATED if findings.counts else Outcome.INCONCLUSIVE if reason else Outcome.VALID
    )
    return Verdict(outcome, findings.anomalies, findings.counts, +findings.notes, reason)


def _too_little(done: Sequence[Operation], rules: Rules) -> str:
    """A history of registers alone need not have records."""
    acknowledged = sum(len(each.sends) for each in done)
    polled = sum(sum(map(len, each.polled.values())) for each in done if each.polled)
    if (
        done
        and not acknowledged
        and not polled
        and any(each.verb in REGISTER_VERBS for each in done)
    ):
        return ""
    if acknowledged < rules.least_acknowledged:
        return f"{acknowledged} records were acknowledged, it takes {rules.least_acknowledged}"
    if polled < rules.least_polled:
        return f"{polled} records were read, it takes {rules.least_polled}"
    return ""
