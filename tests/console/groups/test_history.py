"""The memory of a group's changes between readings."""

from raftka.client.blocking.groups import DescribedGroup
from raftka.console.groups.history import Histories, Seen, Since

PLACE = ("orders", 0)


def see(histories: Histories, at_s: float, state: str, committed: int, end: int | None) -> Seen:
    group = DescribedGroup("classic", state, "range", [], 1)
    ends = {} if end is None else {PLACE: end}
    return histories.see(at_s, "readers", state, group, ({PLACE: committed}, ends))


def test_a_list_is_older_than_what_a_coordinator_has_said() -> None:
    histories = Histories()
    see(histories, 100.0, "PreparingRebalance", 0, 0)
    histories.see_states(101.0, [("readers", "Stable")])
    seen = see(histories, 102.0, "PreparingRebalance", 0, 0)
    assert seen.state_since == Since(100.0, False)
    assert seen.events == []


def test_a_rebalance_that_only_a_list_has_seen_counts_from_there() -> None:
    histories = Histories()
    histories.see_states(100.0, [("readers", "PreparingRebalance"), ("quiet", "Stable")])
    histories.see_states(130.0, [("readers", "Stable")])
    seen = see(histories, 150.0, "Stable", 0, 0)
    assert seen.state_since == Since(130.0, True)
    assert [each.text for each in seen.events] == ["PreparingRebalance → Stable"]
    assert seen.watched_s == 50.0


def test_a_reading_without_all_ends_is_no_sample() -> None:
    histories = Histories()
    see(histories, 100.0, "Stable", 5, None)
    seen = see(histories, 101.0, "Stable", 7, 9)
    assert [(each.done, each.ends, each.lag) for each in seen.samples] == [(7, 9, 2)]
    assert seen.still == {PLACE: Since(101.0, True)}


def test_readings_that_follow_quickly_are_one_sample() -> None:
    histories = Histories()
    for at in range(20):
        seen = see(histories, 100.0 + at / 10, "Stable", at, 30)
    assert len(seen.samples) <= 6
    assert seen.samples[-1].done == 19


def test_records_done_behind_the_start_of_a_share_group_are_no_lag() -> None:
    group = DescribedGroup("share", "Stable", "simple", [], 1)
    offsets = ({PLACE: 2}, {PLACE: 9})
    seen = Histories().see(100.0, "shared", "Stable", group, offsets, {PLACE: 3})
    assert [(each.done, each.ends, each.lag) for each in seen.samples] == [(6, 9, 3)]
