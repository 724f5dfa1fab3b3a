"""Faults of pysyncobj 0.3.17 as it comes, one scenario each: it raises Harm if the harm is done.
The numbers are ours.

Every scenario plays on either kind of Bench; every link is first in, first out, as TCP's is. Only
`vote_counted_twice` needs a duplicate.
"""

from collections.abc import Callable
from copy import deepcopy
from typing import Any

from tests.metadata.raft.bench import Bench, Harm, OurBench, StockBench

VALUES = [f"value-{n}" for n in range(10)]


def harm_if(condition: bool, what: str) -> None:
    if condition:
        raise Harm(what)


def stale_ack_of_old_term(bench: Bench) -> None:
    """H1: an acknowledgement on its way since an earlier term counts in a later one: committed with
    two copies of five.
    """
    bench.elect("a", *"bcde")
    for value in ("p1", "p2", "p3", "p4", "p5"):
        bench.propose("a", value)
    bench.now += 0.25
    bench.tick("a")
    bench.deliver("a", "b")  # b acknowledges all five; that stays on its way
    for other in "cde":
        bench.drop("a", other)
    bench.elect("c", "d", "e")
    for other in "ab":
        for _ in range(4):
            bench.heartbeat("c", "d", "e", other)
    assert bench.log("a") == bench.log("b") == bench.log("c")
    bench.elect("a", "d", "e")
    for value in ("q1", "q2", "q3", "q4"):
        bench.propose("a", value)
    bench.now += 0.25
    bench.tick("a")
    bench.deliver("a", "d")
    bench.deliver("d", "a")

    bench.deliver("b", "a")
    bench.tick("a")

    harm_if("q1" in bench.applied("a"), "committed with the copies of a and d")


def acknowledged_entries_cut_off(bench: Bench) -> None:
    """H2: entries that come a second time cut off what follows them, acknowledged and committed as
    it is.
    """
    bench.elect("a", "b", "c")
    bench.cut = {("a", "c")}
    for value in VALUES:
        bench.propose("a", value)
    bench.now += 0.25
    bench.tick("a")
    bench.drop("a", "b")  # the connection broke
    # the round trip is longer than the heartbeat: two questions are answered with "too far"
    for _ in range(2):
        bench.now += 0.25
        bench.tick("a")
    bench.deliver("a", "b")
    bench.deliver("b", "a", 1)
    bench.now += 0.25
    bench.tick("a")
    burst = bench.queued("a", "b")
    bench.deliver("b", "a", 1)
    bench.now += 0.25
    bench.tick("a")
    bench.deliver("a", "b", len(burst))
    bench.deliver("b", "a")
    bench.tick("a")
    assert bench.applied("a") == VALUES

    bench.deliver("a", "b", 1)
    bench.hand_over("a", "b", deepcopy(burst[0]))
    bench.drop_all()
    bench.elect("b", "c")
    bench.heartbeat("b", "c")

    harm_if(bench.applied("b") != VALUES, f"only {bench.applied('b')} are left")


def old_leader_behind_a_snapshot(bench: Bench) -> None:
    bench.elect("a", "b", "c")
    for value in ("lost-1", "lost-2", "lost-3"):
        bench.propose("a", value)
    bench.now += 0.25
    bench.tick("a")
    bench.drop_all()
    bench.elect("b", "c")
    bench.commit("b", "c", values=VALUES)
    bench.compact("b")
    bench.drop_all()


def commit_by_snapshot(bench: Bench) -> None:
    """H3: each piece of a snapshot carries a commit index, and is believed before anything is known
    to be equal.
    """
    old_leader_behind_a_snapshot(bench)
    for _ in range(100):
        bench.now += 0.25
        bench.tick("b")
        for _ in range(len(bench.queued("b", "a"))):
            bench.deliver("b", "a", 1)
            bench.tick("a")
            harm_if("lost-1" in bench.applied("a"), "a applies what was never committed")
        bench.deliver("a", "b")
    assert bench.applied("a") == VALUES


def older_snapshot_again(bench: Bench) -> None:
    """H4: a snapshot that comes again rolls back what is applied and acknowledged."""
    old_leader_behind_a_snapshot(bench)
    pieces: list[Any] = []
    for _ in range(100):
        bench.now += 0.25
        bench.tick("b")
        pieces += deepcopy(bench.pieces("b", "a"))
        bench.deliver("b", "a")
        bench.deliver("a", "b")
        bench.tick("a")
    bench.commit("b", "a", "c", values=["later-1", "later-2"])
    assert bench.applied("a") == [*VALUES, "later-1", "later-2"]
    log, committed = bench.log("a"), bench.commit_index("a")

    for piece in pieces:
        bench.hand_over("b", "a", piece)

    harm_if(
        bench.applied("a") != [*VALUES, "later-1", "later-2"] or bench.log("a") != log,
        "a fell back to the snapshot",
    )
    harm_if(bench.commit_index("a") < committed, "a takes back what was committed")


def damaged_snapshot(bench: Bench) -> None:
    """H5: a snapshot that cannot be loaded is acknowledged as if it were."""
    old_leader_behind_a_snapshot(bench)
    for _ in range(50):
        bench.now += 0.25
        bench.tick("b")
        for _ in range(len(bench.queued("b", "a"))):
            _damage(bench.queued("b", "a")[0])
            bench.deliver("b", "a", 1)
        said = bench.queued("a", "b")
        harm_if(
            any(message.get("success") for message in said),
            "a acknowledges a snapshot that it could not load",
        )
        bench.deliver("a", "b")
        bench.tick("a")
    assert not bench.applied("a")


def _damage(message: dict[str, Any]) -> None:
    if message.get("serialized"):
        data, first, last = message["serialized"]
        message["serialized"] = (data[:-1] + b"\xff" if data else data, first, last)
    elif message.get("data"):
        message["data"] = message["data"][:-1] + b"\xff"


def read_from_a_deposed_leader(bench: Bench) -> None:
    """H9: a leader that a new one has replaced answers reads for as long as it does not notice."""
    bench.elect("a", "b", "c")
    bench.commit("a", "b", "c", values=["old"])
    assert bench.read("a") in (None, ["old"])
    bench.cut = set(bench.links("ab")) | set(bench.links("ac"))
    bench.elect("b", "c")
    bench.commit("b", "c", values=["new"])
    bench.late["a"] = 2.5  # it was stopped meanwhile
    for _ in range(20):
        answer = bench.read("a")
        harm_if(answer is not None and "new" not in answer, f"a answers {answer}")
        bench.now += 0.25
        bench.tick("a")


def half_connected_voter(bench: Bench) -> None:
    """H10: a voter that reaches another one but not the leader deposes it, again and again."""
    bench.elect("a", "b", "c")
    bench.commit("a", "b", "c", values=["x"])
    term = max(map(bench.term, bench.ids))
    bench.cut = set(bench.links("ac"))

    bench.run(20.0, 0.01, *"abc")

    harm_if(
        max(map(bench.term, bench.ids)) > term,
        "the leader was deposed, though a majority followed it",
    )


def divergent_voter_never_converges(bench: Bench) -> None:
    """H11: each step back is undone by the answers to what was sent on before it."""
    bench.elect("a", "b", "c")
    for value in VALUES:
        bench.propose("a", value)
    bench.drop_all()
    bench.elect("b", "c")
    bench.commit("b", "c", values=[f"kept-{n}" for n in range(40)])
    bench.drop_all()

    bench.run(30.0, 0.15, *"abc")

    leader = next(who for who in bench.ids if bench.leads(who))
    harm_if(
        bench.log("a") != bench.log(leader),
        f"a has {bench.log('a')[-1]}, the leader {bench.log(leader)[-1]}",
    )


def vote_counted_twice(bench: Bench) -> None:
    """H12: votes are counted, not voters."""
    bench.now += 2.0
    bench.stand("a")
    if isinstance(bench, OurBench):  # it asks first; with two that would vote for it, it stands
        for other in "bc":
            bench.deliver("a", other)
            bench.deliver(other, "a")
    bench.deliver("a", "b")
    (vote,) = [message for message in bench.queued("b", "a") if message["type"] == "response_vote"]

    bench.hand_over("b", "a", vote)
    bench.hand_over("b", "a", deepcopy(vote))

    harm_if(bench.leads("a"), "a leads with the votes of a and b of five")


def large_entries(bench: Bench) -> None:
    """H14: where an entry is larger than a batch, the piece taken for the last one is not the last
    one.
    """
    bench.elect("a", "b", "c")
    for size in range(100, 200):
        value = "x" * size
        try:
            bench.commit("a", "b", "c", values=[value])
        except Exception as error:
            raise Harm(f"an entry of {size} bytes: {error!r}") from error
        harm_if(bench.applied("b")[-1:] != [value], f"an entry of {size} bytes did not arrive")


SCENARIOS: dict[str, tuple[Callable[[Bench], None], int, dict[str, Any], dict[str, Any]]] = {
    # what happens, voters, pysyncobj's configuration, ours
    "H1": (stale_ack_of_old_term, 5, {}, {}),
    "H2": (
        acknowledged_entries_cut_off,
        3,
        {"appendEntriesBatchSizeBytes": 100},
        {"batch_bytes": 30},
    ),
    "H3": (commit_by_snapshot, 3, {"logCompactionBatchSize": 50}, {"chunk_bytes": 50}),
    "H4": (older_snapshot_again, 3, {"logCompactionBatchSize": 50}, {"chunk_bytes": 50}),
    "H5": (damaged_snapshot, 3, {"logCompactionBatchSize": 5000}, {"chunk_bytes": 5000}),
    "H9": (read_from_a_deposed_leader, 3, {}, {}),
    "H10": (half_connected_voter, 3, {}, {}),
    "H11": (
        divergent_voter_never_converges,
        3,
        {"appendEntriesBatchSizeBytes": 200},
        {"batch_bytes": 50},
    ),
    "H12": (vote_counted_twice, 5, {}, {}),
    "H14": (large_entries, 3, {"appendEntriesBatchSizeBytes": 64}, {"batch_bytes": 64}),
}


def play_stock(name: str) -> None:
    scenario, voters, conf, _ = SCENARIOS[name]
    scenario(StockBench(voters, **conf))


def play_ours(name: str) -> None:
    from raftka.metadata.quorum.raft import RaftConfig

    scenario, voters, _, config = SCENARIOS[name]
    scenario(OurBench(voters, RaftConfig(retain_entries=0, **config)))
