"""The zoo is complete, each bug of it comes and goes without a trace, and what finds a bug today finds it tomorrow: a fixed sample of bugs and seeds.

The whole hunt is `raftka chaos zoo`.
"""

import pytest

from raftka.chaos.zoo.catalogue import AREAS, BUGS, SCENARIOS, Bug, planted
from raftka.chaos.zoo.hunt import HUNTS, directed, hunts_of, kind_of, lived

AT_LEAST = 40
each_bug = pytest.mark.parametrize("bug", BUGS.values(), ids=BUGS)


def test_there_are_enough_of_them_in_every_area() -> None:
    assert len(BUGS) >= AT_LEAST
    assert {bug.area for bug in BUGS.values()} == set(AREAS)


@each_bug
def test_a_bug_says_what_it_breaks_and_is_hunted(bug: Bug) -> None:
    assert len(bug.breaks.split()) >= 5
    assert bug.breaks.endswith((".", ")."))
    assert set(hunts_of(bug)) <= set(HUNTS)


@each_bug
def test_a_bug_replaces_something_and_is_gone_afterwards(bug: Bug) -> None:
    before = [patch.owner.__dict__[patch.attribute] for patch in bug.patches]

    with planted(bug.name):
        assert all(patch.owner.__dict__[patch.attribute] is not was for patch, was in zip(bug.patches, before, strict=True))

    assert [patch.owner.__dict__[patch.attribute] for patch in bug.patches] == before


def test_it_is_gone_also_when_the_life_with_it_ends_badly() -> None:
    (bug,) = (BUGS["never_truncates"],)
    before = bug.patches[0].owner.__dict__[bug.patches[0].attribute]

    with pytest.raises(ZeroDivisionError), planted(bug.name):
        raise ZeroDivisionError

    assert bug.patches[0].owner.__dict__[bug.patches[0].attribute] is before


def test_every_scenario_has_its_bug() -> None:
    assert SCENARIOS.keys() <= BUGS.keys()


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_scenario_finds_its_bug_and_nothing_else(name: str) -> None:
    SCENARIOS[name]()

    assert directed(name).found


SAMPLE: list[tuple[str, str, int]] = []


@pytest.mark.parametrize(("name", "hunt", "seed"), SAMPLE)
def test_a_seed_finds_its_bug(name: str, hunt: str, seed: int) -> None:
    assert lived(hunt, seed) == []

    with planted(name):
        assert lived(hunt, seed)


@pytest.mark.parametrize(
    ("violation", "kind"),
    [
        ("Stream(producer='a'): 3 acknowledged records are lost, the first is 7", "lost write"),
        ("Traceback\nAssertionError: two leaders of the quorum: n1 and n2 in term 3", "two leaders in a term"),
        ("Traceback\nAssertionError: something else", "assertion: something else"),
        ("Traceback\nValueError: 1", "ValueError"),
    ],
)
def test_a_violation_has_a_kind(violation: str, kind: str) -> None:
    assert kind_of([violation]) == kind
