"""A round of append_entries that tells of a commit and nothing else: nobody answers it, but for who
misses something.
"""

from typing import Any

from tests.metadata.raft.bench import OurBench
from tests.metadata.raft.cases import append, said


def committed_by_b(bench: OurBench) -> int:
    """An entry of a's that b has, and a knows it; returns its index. What is said next to b is the
    round about the commit.
    """
    bench.elect("a", "b", "c")
    bench.drop_all()
    bench.propose("a", "x")
    bench.deliver("a", "b")
    bench.drop("a", "b")
    return bench.log("a")[-1][0]


def round_to_b(bench: OurBench) -> dict[str, Any]:
    bench.deliver("b", "a")
    (message,) = said(bench, "a", "b", "append_entries")
    return message


def test_it_is_not_answered() -> None:
    bench = OurBench()
    index = committed_by_b(bench)
    message = round_to_b(bench)
    assert (message["commit_index"], message["entries"], message["quiet"]) == (index, [], True)

    bench.deliver("a", "b")

    assert bench.commit_index("b") == index
    assert bench.queued("b", "a") == []
    bench.heartbeat("a", "b", "c")
    assert bench.commit_index("c") == index


def test_who_misses_entries_says_so() -> None:
    bench = OurBench()
    index = committed_by_b(bench)
    round_to_b(bench)
    bench.deliver("a", "c", count=1)  # it had the entry in it
    bench.drop("a", "c")
    bench.drop("c", "a")

    bench.hand_over(
        "a", "c", append(bench, "c", prevLogIdx=index + 7, commit_index=index, quiet=True)
    )

    (answer,) = said(bench, "c", "a", "next_node_idx")
    assert answer["reset"]
    assert not answer["success"]


def test_it_is_answered_where_a_read_waits_for_it() -> None:
    bench = OurBench()
    index = committed_by_b(bench)
    read: list[int | None] = []
    bench.cores["a"].read_index(read.append)
    assert not round_to_b(bench)["quiet"]

    bench.deliver("a", "b")
    bench.deliver("b", "a")

    assert read == [index]


def test_entries_are_acknowledged_whatever_stands_beside_them() -> None:
    bench = OurBench()
    committed_by_b(bench)
    bench.cores["a"].propose(b"y")
    message = round_to_b(bench)
    assert [each[0][1:] for each in message["entries"]] == [b"y"]
    assert "quiet" not in message

    bench.deliver("a", "b")

    (answer,) = said(bench, "b", "a", "next_node_idx")
    assert answer["success"]
