"""Sharing out partitions: everything wanted is somebody's, nobody has more than is fair, and
nothing moves without need.
"""

from collections import Counter
from collections.abc import Callable
from functools import partial
from random import Random

import pytest

from raftka.broker.work.long_work import drained
from raftka.coordinator.consumer.assignor import ASSIGNORS, Wish
from raftka.coordinator.consumer.commands import Target
from tests.coordinator.world import LINEAR, counted

TOPICS = [bytes([number]) * 16 for number in range(5)]


def assign(
    name: str, wishes: dict[str, Wish], counts: dict[bytes, int], before: dict[str, Target]
) -> dict[str, Target]:
    return drained(ASSIGNORS[name](wishes, counts, before))


assign_range, assign_uniform = partial(assign, "range"), partial(assign, "uniform")


def partitions(found: dict[str, Target]) -> list[tuple[bytes, int]]:
    return [
        (topic_id, each)
        for target in found.values()
        for topic_id, numbers in target.items()
        for each in numbers
    ]


def moved(before: dict[str, Target], after: dict[str, Target]) -> int:
    owner = {
        (topic_id, each): member
        for member, target in before.items()
        for topic_id, numbers in target.items()
        for each in numbers
    }
    return sum(
        owner.get((t, each), member) != member
        for member, target in after.items()
        for t, numbers in target.items()
        for each in numbers
    )


@pytest.mark.parametrize("seed", range(40))
@pytest.mark.parametrize("name", ASSIGNORS)
def test_every_partition_that_somebody_subscribes_to_has_one_owner_who_does(
    name: str, seed: int
) -> None:
    random = Random(seed)
    before: dict[str, Target] = {}
    for _ in range(6):
        counts = {
            topic_id: random.randint(1, 12)
            for topic_id in random.sample(TOPICS, random.randint(1, 5))
        }
        members = [f"m{i}" for i in range(random.randint(1, 8))]
        alike = frozenset(random.sample(sorted(counts), random.randint(0, len(counts))))
        wishes = {
            m: Wish(
                None,
                alike
                if seed % 2
                else frozenset(random.sample(sorted(counts), random.randint(0, len(counts)))),
            )
            for m in members
        }
        found = assign(name, wishes, counts, before)

        wanted = {topic_id for wish in wishes.values() for topic_id in wish.topics}
        assert sorted(partitions(found)) == sorted(
            (topic_id, each) for topic_id in wanted for each in range(counts[topic_id])
        )
        assert all(
            topic_id in wishes[member].topics
            for member, target in found.items()
            for topic_id in target
        )
        assert found.keys() == wishes.keys()
        if name == "uniform":
            _check_fair(wishes, found)
            assert assign_uniform(wishes, counts, found) == found
        before = found


def _check_fair(wishes: dict[str, Wish], found: dict[str, Target]) -> None:
    """Nobody has two more than another who might have one of them."""
    sizes = {member: sum(map(len, target.values())) for member, target in found.items()}
    for member, target in found.items():
        for other, wish in wishes.items():
            assert sizes[member] <= sizes[other] + 1 or not wish.topics & target.keys()


@pytest.mark.parametrize("seed", range(20))
def test_uniform_moves_no_more_than_it_must(seed: int) -> None:
    """A newcomer gets its share from those who have most; of one who has gone, only what it had
    moves.
    """
    random = Random(seed)
    counts = {topic_id: random.randint(1, 20) for topic_id in TOPICS}
    wish, total = Wish(None, frozenset(TOPICS)), sum(counts.values())
    members = [f"m{i}" for i in range(random.randint(2, 9))]
    before = assign_uniform(dict.fromkeys(members, wish), counts, {})
    more = assign_uniform(dict.fromkeys([*members, "n"], wish), counts, before)
    less = assign_uniform(dict.fromkeys(members[1:], wish), counts, before)

    assert moved(before, more) == sum(map(len, more["n"].values())) == total // (len(members) + 1)
    assert moved({m: before[m] for m in members[1:]}, less) == 0


def test_uniform_with_unlike_subscriptions() -> None:
    a, b = TOPICS[:2]
    wishes = {
        "x": Wish(None, frozenset({a})),
        "y": Wish(None, frozenset({a, b})),
        "z": Wish(None, frozenset({b})),
    }

    found = assign_uniform(wishes, {a: 2, b: 4}, {})

    assert Counter(
        {member: sum(map(len, target.values())) for member, target in found.items()}
    ) == {"x": 2, "y": 2, "z": 2}


def test_range_is_co_partitioned_and_static_members_come_first() -> None:
    a, b, c = TOPICS[:3]
    both = frozenset({a, b, c})
    wishes = {"m9": Wish("i1", both), "m1": Wish(None, both), "m5": Wish("i0", both)}

    found = assign_range(wishes, {a: 5, b: 5, c: 1}, {})

    assert found == {
        "m5": {a: (0, 1), b: (0, 1), c: (0,)},
        "m9": {a: (2, 3), b: (2, 3)},
        "m1": {a: (4,), b: (4,)},
    }
    again = {"m7": wishes["m9"], "m1": wishes["m1"], "m5": wishes["m5"]}
    assert assign_range(again, {a: 5, b: 5, c: 1}, found)["m7"] == found["m9"]


def test_a_member_that_subscribes_to_something_else_moves_no_partition_of_the_others() -> None:
    counts = {bytes([number]) * 16: 20 for number in range(50)}
    wishes = {f"m{number}": Wish(None, frozenset(counts)) for number in range(200)}
    before = assign_uniform(wishes, counts, {})

    found = assign_uniform({**wishes, "odd": Wish(None, frozenset({b"x" * 16}))}, counts, before)

    assert {member: target for member, target in found.items() if member != "odd"} == before


# what it costs


def _alike(members: int, topics: list[bytes]) -> dict[str, Wish]:
    return {f"m{number:05}": Wish(None, frozenset(topics)) for number in range(members)}


def _two_kinds(members: int, topics: list[bytes]) -> dict[str, Wish]:
    """Half of the members subscribe to a part of what the others do."""
    kinds = [Wish(None, frozenset(topics)), Wish(None, frozenset(topics[: len(topics) // 2]))]
    return {f"m{number:05}": kinds[number % 2] for number in range(members)}


def _one_odd(members: int, topics: list[bytes]) -> dict[str, Wish]:
    """One that nobody can give anything."""
    return {**_alike(members, topics), "odd": Wish(None, frozenset({b"x" * 16}))}


def _each_its_own(members: int, topics: list[bytes]) -> dict[str, Wish]:
    """No two members subscribe to the same topics."""
    return {
        f"m{number:05}": Wish(
            None, frozenset(topics[(number + step) % len(topics)] for step in range(4))
        )
        for number in range(members)
    }


KINDS = [_alike, _two_kinds, _one_odd, _each_its_own]


def _steps(
    name: str, kind: Callable[[int, list[bytes]], dict[str, Wish]], members: int, topics: int
) -> int:
    """Of a first assignment, of one in which half of the members are new, and of one in which half
    of them have gone.
    """
    counts = {number.to_bytes(16, "big"): 10 for number in range(1, topics + 1)}
    wishes = kind(members, list(counts))
    half = dict(list(wishes.items())[: members // 2])
    with counted() as steps:
        before = assign(name, half, counts, {})
        after = assign(name, wishes, counts, before)
        assign(name, half, counts, after)
    return steps.count


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: str(kind.__name__).strip("_"))
@pytest.mark.parametrize("name", ASSIGNORS)
def test_an_assignment_costs_in_proportion_to_members_and_partitions(
    name: str, kind: Callable[[int, list[bytes]], dict[str, Wish]]
) -> None:
    once = _steps(name, kind, 100, 60)

    assert _steps(name, kind, 200, 120) / once < LINEAR
    assert _steps(name, kind, 200, 60) / once < LINEAR
    assert _steps(name, kind, 100, 120) / once < LINEAR
