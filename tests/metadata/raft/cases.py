"""Harms that our voters must not do, beyond the faults of pysyncobj: lost disks, formation, other
clusters. Each raises Harm if it does.
"""

from copy import deepcopy
from typing import Any

from raftka.chaos.small.memory_files import MemoryFiles
from raftka.chaos.small.raft_cluster import Cluster
from raftka.metadata.quorum.raft import RaftConfig, SafetyViolated, WrongCluster
from tests.metadata.raft.bench import OurBench
from tests.metadata.raft.hazards import VALUES, harm_if


def append(bench: OurBench, receiver: str, **fields: Any) -> dict[str, Any]:
    """Return a message that a leader might send to this voter."""
    index, term = bench.log(receiver)[-1]
    message = {
        "type": "append_entries",
        "term": term,
        "seq": 99,
        "commit_index": 0,
        "prevLogIdx": index,
        "prevLogTerm": term,
        "entries": [],
    }
    return message | {"promote": []} | fields


def request_vote(bench: OurBench, of: str, term: int) -> dict[str, Any]:
    index, last_term = bench.log(of)[-1]
    return {
        "type": "request_vote",
        "term": term,
        "last_log_index": index,
        "last_log_term": last_term,
        "transfer": True,
    }


def said(bench: OurBench, sender: str, receiver: str, kind: str) -> list[dict[str, Any]]:
    return [message for message in bench.queued(sender, receiver) if message["type"] == kind]


def lose_disk(bench: OurBench, who: str) -> None:
    bench.crash(who)
    bench.disks[who] = MemoryFiles()
    bench.boot(who)


# votes and entries


def vote_forgotten() -> None:
    """A voter that restarts does not vote a second time in a term."""
    bench = OurBench()
    bench.now += 2.0
    bench.stand("a")
    bench.deliver("a", "b")
    bench.deliver("b", "a")
    bench.deliver("a", "b")
    assert said(bench, "b", "a", "response_vote")
    term = bench.term("b")
    bench.crash("b")
    bench.boot("b")
    bench.exchange("b", "c")

    bench.hand_over("c", "b", request_vote(bench, "c", term))

    harm_if(said(bench, "b", "c", "response_vote") != [], f"b votes twice in term {term}")


def shown_before_flushed() -> None:
    """No vote, no acknowledgement, no commit is seen before what it rests on is flushed."""
    bench = OurBench()
    bench.now += 2.0
    bench.stand("a")
    bench.deliver("a", "b")
    bench.deliver("b", "a")
    bench.cores["b"].receive(1, bench.queues["a", "b"].popleft()[1])
    bench.step("b")
    assert bench.cores["b"].unsynced
    harm_if(bench.cores["b"].take_outbox() != [], "b's vote leaves before it is flushed")
    alone = OurBench(1)
    alone.stand("a")
    alone.cores["a"].propose(b"x")
    alone.step("a")
    harm_if(alone.cores["a"].take_committed() != [], "committed before it is flushed")
    alone.sync("a")
    assert [item.data for item in alone.cores["a"].take_committed()] == [b"x"]  # type: ignore[union-attr]


def counted_before_flushed() -> None:
    """A leader's entries leave while its disk writes; its own copy counts for nothing before it is
    there.
    """
    bench = OurBench()
    bench.elect("a", "b", "c")
    leader = bench.cores["a"]
    index = leader.propose(b"x")
    bench.step("a")
    bench.give_out("a")
    assert said(bench, "a", "b", "append_entries")
    bench.deliver("a", "b")
    for _, answer in bench.queues["b", "a"]:
        leader.receive(2, answer)
    try:
        bench.step("a")
    except AssertionError:
        bench.tick_after_flush("a")
        assert leader.commit_index == index
    else:
        harm_if(leader.commit_index >= index, "committed by one disk of three")


def divergent_tail_committed() -> None:
    """A leader's commit index says nothing about entries that are not known to be the leader's."""
    bench = OurBench()
    bench.elect("a", "b", "c")
    bench.commit("a", "b", "c", values=["kept"])
    for value in ("lost-1", "lost-2"):
        bench.propose("a", value)
    index, term = bench.log("b")[-1]
    bench.drop_all()
    bench.elect("b", "c")

    bench.hand_over(
        "b", "a", append(bench, "b", prevLogIdx=index, prevLogTerm=term, commit_index=index + 2)
    )

    harm_if("lost-1" in bench.applied("a"), "a applies what the leader does not have")


def committed_entry_replaced() -> None:
    """A leader that would take back committed entries is not followed: the voter stops."""
    bench = OurBench()
    bench.elect("a", "b", "c")
    bench.commit("a", "b", "c", values=["kept"])
    index, term = bench.log("b")[-1]
    before = bench.cores["b"].journal.entries[:]
    message = append(
        bench, "b", term=term + 1, prevLogIdx=index - 1, entries=[[b"\x00other", index, term + 1]]
    )
    try:
        bench.hand_over("a", "b", message)
    except SafetyViolated:
        return
    harm_if(bench.cores["b"].journal.entries != before, "a committed entry was replaced")


def two_leaders_of_a_term() -> None:
    bench = OurBench()
    bench.elect("a", "b", "c")
    try:
        bench.hand_over("b", "a", append(bench, "a"))
    except SafetyViolated:
        return
    harm_if(not bench.leads("a"), "a gave way to a second leader of its own term")


def answers_make_floods() -> None:
    """Entries that were sent again are not sent once more for each answer to the first ones."""
    bench = OurBench()
    bench.elect("a", "b", "c")
    bench.cut = {("a", "c")}
    for value in VALUES:
        bench.propose("a", value)
    bench.drop("a", "b")
    for _ in range(5):
        bench.now += 0.25
        bench.tick("a")
    bench.deliver("a", "b")
    bench.deliver("b", "a")
    sent = [message for message in said(bench, "a", "b", "append_entries") if message["entries"]]
    harm_if(len(sent) != 1, f"sent {len(sent)} times")


def rounds_without_end() -> None:
    """While two voters take snapshots, what all of them answer to a round does not cause rounds."""
    five = Cluster(5, 0, RaftConfig(retain_entries=0, chunk_bytes=100))
    leader = five.elect()
    late = [voter for voter in five.voters if voter != leader.id][:2]
    for voter in late:
        five.crash(voter)
    for n in range(20):
        five.propose(b"%d" % n)
    five.run(1)
    leader.core.snapshot(leader.applied[-1].index, bytes(1000))
    # the pieces are lost
    five.net.drop = lambda sender, receiver, message: message["type"] == "snapshot"
    for voter in late:
        five.start(voter)
    before = five.sent
    five.run(2, lambda: five.sent > before + 1000)
    harm_if(five.sent - before > 400, f"{five.sent - before} messages in {five.now:.1f} s")
    five.net.drop = lambda sender, receiver, message: False
    five.settle()


def paused_voter_fills_memory() -> None:
    bench = OurBench(3, RaftConfig(batch_bytes=1000, window_bytes=4000))
    bench.elect("a", "b", "c")
    for n in range(100):
        bench.propose("a", f"{n}" + "x" * 500)
        bench.exchange("a", "b")
    waiting = sum(
        len(entry[0])
        for message in said(bench, "a", "c", "append_entries")
        for entry in message["entries"]
    )
    harm_if(waiting > 6000, f"{waiting} bytes wait for c")
    for _ in range(20):
        bench.heartbeat("a", "b", "c")
    assert len(bench.applied("c")) == 100


def transfer_refused() -> None:
    """A leader that asks for its own replacement is not protected from it."""
    bench = OurBench()
    bench.elect("a", "b", "c")
    bench.commit("a", "b", "c", values=["x"])
    bench.cores["a"].transfer(2)
    bench.exchange("a", "b", "c")
    harm_if(not bench.leads("b") or bench.leads("a"), "b does not lead")
    assert bench.cores["b"].active


# lost disks


def lost_disk_votes() -> None:
    """b acknowledged what c never got. With an empty disk b must not make c the leader."""
    bench = OurBench()
    bench.elect("a", "b", "c")
    bench.cut = {("a", "c")}
    bench.commit("a", "b", values=VALUES)
    bench.cut = set(bench.links("ab")) | set(bench.links("ac"))
    lose_disk(bench, "b")
    bench.exchange("b", "c")
    for _ in range(3):
        bench.now += 2.0
        bench.stand("c")
        bench.exchange("b", "c")
    bench.now += 2.0
    bench.hand_over("c", "b", request_vote(bench, "c", bench.term("c") + 1))
    harm_if(
        bench.leads("c") or said(bench, "b", "c", "response_vote") != [],
        "b votes, having forgotten what it acknowledged",
    )


def lost_disk_takes_itself_for_new() -> None:
    bench = OurBench()
    bench.elect("a", "b", "c")
    bench.commit("a", "b", "c", values=["x"])
    lose_disk(bench, "b")
    for _ in range(10):
        for a, b in bench.links("abc"):
            bench.deliver(a, b, 1)
            harm_if(
                bench.cores["b"].formed and not bench.applied("b"),
                "b votes though it has lost its disk",
            )


def lost_disk_acknowledges() -> None:
    """While c is away, what only a has is not committed because b, with an empty disk, has a copy
    again.
    """
    bench = OurBench()
    bench.elect("a", "b", "c")
    bench.commit("a", "b", "c", values=["x"])
    bench.cut = set(bench.links("ac")) | set(bench.links("bc"))
    lose_disk(bench, "b")
    bench.exchange("a", "b")
    bench.propose("a", "new")
    for _ in range(3):
        bench.heartbeat("a", "b")
    harm_if("new" in bench.applied("a"), "committed with an acknowledgement that is none")
    assert bench.log("b")[-1] == bench.log("a")[-1]
    bench.cut = set()
    bench.now -= 0.2
    for _ in range(4):
        bench.heartbeat("a", "b", "c")
    assert bench.applied("b") == bench.applied("a") == ["x", "new"]
    assert bench.cores["b"].formed


def lost_disk_believes_a_deposed_leader() -> None:
    """b helped c to replace a and to commit, then lost its disk. What a, cut off since, tells it,
    does not bring it up to date.
    """
    bench = OurBench()
    bench.elect("a", "b", "c")
    bench.cut = set(bench.links("ab")) | set(bench.links("ac"))
    bench.elect("c", "b")
    bench.commit("c", "b", values=["new"])
    bench.cut = set(bench.links("ac")) | set(bench.links("bc"))
    bench.drop_all()
    lose_disk(bench, "b")
    bench.late["a"] = 2.5  # it was stopped meanwhile
    for _ in range(3):  # before it notices that nobody answers
        bench.heartbeat("a", "b")
        assert bench.leads("a")
    harm_if(
        bench.cores["b"].formed, "b takes part again, having forgotten what it helped to commit"
    )


def promoted_votes_again() -> None:
    """A voter that is up to date again may have voted in this term before it lost its disk."""
    bench = OurBench()
    bench.elect("a", "b", "c")
    lose_disk(bench, "b")
    for _ in range(4):
        bench.heartbeat("a", "b", "c")
    assert bench.cores["b"].formed
    bench.drop_all()

    bench.hand_over("c", "b", request_vote(bench, "c", bench.term("b")))

    harm_if(said(bench, "b", "c", "response_vote") != [], "b votes twice in a term")


# formation


def formed_without_everyone() -> None:
    """Two of three empty directories make no cluster: the third may have one."""
    bench = OurBench(boot="ab")
    for _ in range(5):
        bench.heartbeat("a", "b")
        bench.now += 2.0
        bench.stand("a")
        bench.exchange("a", "b")
    harm_if(bench.cores["a"].formed or bench.leads("a"), "formed by two of three")
    bench.boot("c")
    bench.exchange("a", "b", "c")
    bench.elect("a", "b", "c")


def stands_before_everyone_noted() -> None:
    """Whoever votes first must know that no one is left who would take itself for new."""
    bench = OurBench(boot="abc")
    for _ in range(3):
        for link in (("a", "b"), ("b", "a"), ("a", "c"), ("c", "a")):
            bench.deliver(*link, count=1)
        if bench.cores["a"].formed:
            break
    assert bench.cores["a"].formed
    assert not bench.cores["b"].formed
    bench.now += 2.0
    bench.stand("a")
    harm_if(
        said(bench, "a", "b", "prevote") != [], "a stands though b has not noted that it is a voter"
    )
    bench.exchange("a", "b", "c")
    bench.elect("a", "b", "c")


def two_clusters_meet() -> None:
    """Voters of another cluster, or of another set of voters, are refused before anything else is
    heard.
    """
    bench, other = OurBench(), OurBench()
    for which, cluster_id in ((bench, "ours"), (other, "theirs")):
        which.elect("a", "b", "c")
        for core in which.cores.values():
            core.identify(cluster_id)
        which.drop_all()
    lost = bench.voters["b"]
    bench.cores["a"].peer_lost(lost)
    other.cores["b"].peer_lost(1)
    other.cores["b"].peer_up(1)
    other.tick("b")
    for message in [
        *deepcopy(said(other, "b", "a", "hello")),
        deepcopy(said(other, "b", "a", "hello")[-1]) | {"cluster": None, "voters": [1, 2]},
    ]:
        try:
            bench.hand_over("b", "a", message)
        except WrongCluster:
            continue
        harm_if(True, f"a listens to {message}")


def strangers_are_heard() -> None:
    """Before it has said who it is, nothing of a peer counts."""
    bench = OurBench()
    bench.elect("a", "b", "c")
    bench.cores["b"].peer_lost(3)
    bench.tick("b")
    term = bench.term("b")
    bench.hand_over("c", "b", request_vote(bench, "c", term + 5))
    harm_if(bench.term("b") != term, "b takes a term from a stranger")
