"""The sticky assignor of tasks: every task once, evenly, where it was; its copies elsewhere."""

from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from raftka.broker.work.long_work import drained
from raftka.coordinator.streams.assignor import Count, Wish, assign_sticky
from raftka.coordinator.streams.tasks import Tasks, each_task

EXAMPLES = settings(max_examples=200, deadline=None, derandomize=True, database=None)
PROCESSES = st.dictionaries(
    st.sampled_from("abcdefgh"), st.sampled_from(("p", "q", "r", "s")), min_size=1
)
COUNTS = st.dictionaries(
    st.sampled_from("0123"), st.builds(Count, st.integers(0, 9), st.booleans()), max_size=4
)


def assigned(wishes: dict[str, Wish], counts: dict[str, Count], replicas: int) -> dict[str, Tasks]:
    return drained(assign_sticky(wishes, counts, replicas))


def following(processes: dict[str, str], before: dict[str, Tasks]) -> dict[str, Wish]:
    return {
        member_id: Wish(process_id, before.get(member_id, Tasks()))
        for member_id, process_id in processes.items()
    }


@EXAMPLES
@given(PROCESSES, PROCESSES, COUNTS, st.integers(0, 2))
def test_every_task_is_active_once_and_has_its_copies_elsewhere(
    first: dict[str, str], second: dict[str, str], counts: dict[str, Count], replicas: int
) -> None:
    before: dict[str, Tasks] = {}
    for processes in (first, second, second):
        found = assigned(following(processes, before), counts, replicas)
        assert found.keys() == processes.keys()
        active = Counter(task for tasks in found.values() for task in each_task(tasks.active))
        assert active == Counter(
            (name, each) for name, count in counts.items() for each in range(count.tasks)
        )
        for task in active:
            held = [
                processes[member_id]
                for member_id, tasks in found.items()
                for each in (*each_task(tasks.active), *each_task(tasks.standby))
                if each == task
            ]
            stateful = counts[task[0]].stateful
            most = min(1 + replicas, len(set(processes.values()))) if stateful else 1
            assert len(held) == len(set(held)) == most
        if processes is second and before.keys() == found.keys():
            assert assigned(following(processes, found), counts, replicas) == found
        before = found


@EXAMPLES
@given(PROCESSES, COUNTS)
def test_active_tasks_are_even_when_each_process_has_one_member(
    processes: dict[str, str], counts: dict[str, Count]
) -> None:
    alone = {member_id: member_id for member_id in processes}
    found = assigned(following(alone, {}), counts, 0)

    sizes = [len(list(each_task(tasks.active))) for tasks in found.values()]
    assert max(sizes) - min(sizes) <= 1


def test_a_member_that_comes_gets_its_share_and_the_others_keep_the_rest() -> None:
    counts = {"0": Count(6, True)}
    before = assigned(following({"a": "p", "b": "q"}, {}), counts, 0)

    after = assigned(following({"a": "p", "b": "q", "c": "r"}, before), counts, 0)

    assert [len(list(each_task(after[each].active))) for each in "abc"] == [2, 2, 2]
    for member_id in "ab":
        assert set(each_task(after[member_id].active)) < set(each_task(before[member_id].active))


def test_a_task_goes_to_the_member_whose_copy_is_most_caught_up() -> None:
    counts = {"0": Count(1, True)}
    copy = Tasks(standby={"0": (0,)})
    wishes = {
        "a": Wish("p", copy, {("0", 0): 5}),
        "b": Wish("q", copy, {("0", 0): 90}),
        "c": Wish("r", Tasks(), {("0", 0): 100}),  # only on its disk
    }

    found = assigned(wishes, counts, 0)

    assert found["b"].active == {"0": (0,)}
