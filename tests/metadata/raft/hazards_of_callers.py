"""More of what goes wrong with pysyncobj as it comes: what those who call it see. One scenario for
it and one for ours, because the calls differ.
"""

import pickle
from typing import Any

from pysyncobj import syncobj

from raftka.metadata.quorum.raft import MalformedMessage, RaftConfig
from tests.metadata.raft.bench import Harm, OurBench, StockBench
from tests.metadata.raft.hazards import VALUES, harm_if

VERSION, MEMBERSHIP = b"\x03", b"\x02"


def failing_command_stock() -> None:
    """H6: a command that raises is applied again with every tick, for ever."""
    bench = StockBench()
    bench.elect("a", "b", "c")

    def fails(value: str) -> None:
        raise RuntimeError(value)

    bench.nodes["a"].on_put = fails
    bench.propose("a", "bad")
    for _ in range(4):
        bench.now += 0.25
        try:
            bench.exchange("a", "b", "c")
        except RuntimeError:
            continue
    harm_if(bench.applied("a").count("bad") > 1, f"applied {bench.applied('a')}")


def failing_command_ours() -> None:
    """The state machine is not inside: an entry is handed out once, whatever is done with it."""
    bench = OurBench()
    bench.elect("a", "b", "c")
    bench.commit("a", "b", "c", values=["bad"])
    for _ in range(3):
        bench.heartbeat("a", "b", "c")
    harm_if(bench.applied("a").count("bad") != 1, f"handed out {bench.applied('a')}")


def failing_callback_stock() -> None:
    """H7: where the caller's callback raises, its command is applied twice."""
    bench = StockBench()
    bench.elect("a", "b", "c")

    def callback(result: Any, error: int) -> None:
        raise RuntimeError("in a callback")

    bench.nodes["a"].put("once", callback=callback)
    for _ in range(4):
        bench.now += 0.25
        try:
            bench.exchange("a", "b", "c")
        except RuntimeError:
            continue
    harm_if(bench.applied("a").count("once") > 1, f"applied {bench.applied('a')}")


def failing_callback_ours() -> None:
    """Callers behind one that raises are still answered, each once."""
    bench = OurBench()
    bench.elect("a", "b", "c")
    called: list[str] = []

    def fails(index: int | None) -> None:
        called.append("fails")
        raise RuntimeError("in a callback")

    bench.cores["a"].read_index(fails)
    bench.cores["a"].read_index(lambda index: called.append("next"))
    for _ in range(4):
        bench.now += 0.25
        try:
            bench.exchange("a", "b", "c")
        except RuntimeError:
            continue
    harm_if(called != ["fails", "next"], f"called {called}")


def newer_code_version_stock() -> None:
    """H8: an entry that raises the code version above this node's is skipped, and the last entry
    applied twice in its place.
    """
    bench = StockBench()
    bench.elect("a", "b", "c")
    bench.propose("a", "x")
    bench.nodes["a"]._applyCommand(pickle.dumps(1), None, syncobj._COMMAND_TYPE.VERSION)
    bench.propose("a", "y")
    for _ in range(4):
        bench.heartbeat("a", "b", "c")
    harm_if(bench.applied("b") != ["x", "y"], f"applied {bench.applied('b')}")


def newer_code_version_ours() -> None:
    """Such entries, and changes of membership, do not get in."""
    bench = OurBench()
    bench.elect("a", "b", "c")
    bench.commit("a", "b", "c", values=["x"])
    index, term = bench.log("b")[-1]
    for kind in (VERSION, MEMBERSHIP):
        message = {
            "type": "append_entries",
            "term": term,
            "seq": 99,
            "commit_index": index + 1,
            "prevLogIdx": index,
            "prevLogTerm": term,
        }
        try:
            bench.hand_over(
                "a", "b", message | {"entries": [[kind + b"1", index + 1, term]], "promote": []}
            )
        except MalformedMessage:
            continue
        raise Harm(f"an entry of kind {kind!r} was taken")


def flood_stock() -> None:
    """H13: while a snapshot is being written, one tick says the same nothing thousands of times."""
    bench = StockBench()
    bench.elect("a", "b", "c")
    bench.cut = {("a", "c"), ("c", "a")}
    bench.commit("a", "b", values=VALUES)
    bench.compact("a")
    node = bench.nodes["a"]
    node._SyncObj__raftNextIndex[next(n for n in node.otherNodes if n.id == "c")] = 2
    node._SyncObj__serializer._Serializer__pid = 4711  # a child writes the next one
    bench.drop_all()
    bench.now += 0.25

    def clock() -> float:
        bench.now += 0.0001
        return bench.now

    syncobj.monotonicTime = clock
    node._SyncObj__sendAppendEntries()
    harm_if(len(bench.queued("a", "c")) > 100, f"{len(bench.queued('a', 'c'))} messages at once")


def flood_ours() -> None:
    """One piece, and none before it is acknowledged; with a clock that stands still."""
    bench = OurBench(3, RaftConfig(retain_entries=0, chunk_bytes=30))
    bench.elect("a", "b", "c")
    bench.cut = {("a", "c"), ("c", "a")}
    bench.commit("a", "b", values=VALUES)
    bench.compact("a")
    bench.drop_all()
    bench.cut = set()
    bench.now += 0.25
    bench.tick("a")
    bench.deliver("a", "c")
    bench.deliver("c", "a")  # it is too far behind: from now on a snapshot
    for _ in range(10):
        bench.tick("a")
        harm_if(len(bench.queued("a", "c")) > 10, f"{len(bench.queued('a', 'c'))} messages at once")
    harm_if(len(bench.pieces("a", "c")) != 1, f"{len(bench.pieces('a', 'c'))} pieces")


def waiting_caller_stock() -> None:
    """H15: a caller whose entry is overtaken by a snapshot waits for ever."""
    bench = StockBench()
    bench.elect("a", "b", "c")
    answers: list[int] = []
    bench.nodes["a"].put("lost", callback=lambda result, error: answers.append(error))
    bench.tick("a")
    bench.drop_all()
    bench.elect("b", "c")
    bench.commit("b", "c", values=VALUES)
    bench.compact("b")
    bench.drop_all()
    for _ in range(10):
        bench.heartbeat("a", "b", "c")
    assert bench.applied("a") == VALUES
    harm_if(answers == [], "the caller was never answered")


def waiting_caller_ours() -> None:
    """A reader learns that leadership was lost, once; and also if its node stops."""
    bench = OurBench()
    bench.elect("a", "b", "c")
    answers: list[int | None] = []
    bench.cores["a"].read_index(answers.append)
    bench.tick("a")
    bench.drop_all()
    bench.elect("b", "c")
    for _ in range(10):
        bench.heartbeat("a", "b", "c")
    bench.cores["b"].read_index(answers.append)
    bench.cores["b"].stop()
    harm_if(answers != [None, None], f"answered {answers}")


PAIRS = {
    "H6": (failing_command_stock, failing_command_ours),
    "H7": (failing_callback_stock, failing_callback_ours),
    "H8": (newer_code_version_stock, newer_code_version_ours),
    "H13": (flood_stock, flood_ours),
    "H15": (waiting_caller_stock, waiting_caller_ours),
}
