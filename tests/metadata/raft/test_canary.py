"""pysyncobj is as it was when the guards were written: its version, the source of what they stand
before, the private names they use.
"""

import hashlib
import inspect
import re
from importlib.metadata import version
from pathlib import Path
from random import Random

import pysyncobj
import pytest

import raftka.metadata
from raftka.chaos.small.memory_files import MemoryFiles
from raftka.metadata.quorum.journal import Journal
from raftka.metadata.quorum.raft_engine import Engine
from raftka.metadata.quorum.raft_types import RaftConfig
from raftka.metadata.quorum.raft_voter import Voter

WHAT_TO_DO = """
pysyncobj's {name} is not what it was. Before you write its new hash here:
1. read what has changed in it, and in every method that it calls;
2. for each guard in raft_engine.py and raft_voter.py: does it still stand before what it guards
   against? Is it still needed?
3. run the scenarios against the new version as it comes (test_hazards.py): what it no longer gets
   wrong needs no guard;
4. run `raftka chaos sim --small --seeds 0-9999`.
New hash: {digest}
"""

HASHES = {
    "__init__": "09df12cd7fd7d727",
    "_onTick": "cc9eb08232d005ba",
    "_SyncObj__onMessageReceived": "ddfe34b6c0282179",
    "_SyncObj__onBecomeLeader": "5a3fd97bc17dc1cf",
    "_SyncObj__sendAppendEntries": "9cb9073128c392fa",
    "_SyncObj__sendNextNodeIdx": "68aaeefc267b8896",
    "_SyncObj__getEntries": "e29c4b33293b2101",
    "_SyncObj__getPrevLogIndexTerm": "6766914806ae2311",
    "_SyncObj__deleteEntriesFrom": "3b23c411bb903d36",
    "_SyncObj__getCurrentLogIndex": "e5af22ca246686bd",
    "_SyncObj__getCurrentLogTerm": "1cb8867e6a13d397",
    "_SyncObj__setState": "2c1f239f7bd79b39",
    "_SyncObj__setCurrentTerm": "0ad5bf456ac06bd3",
    "_SyncObj__onLeaderChanged": "53b7685e1d897887",
    "_SyncObj__onNodeConnected": "2655afb481b4c69b",
    "_SyncObj__onNodeDisconnected": "a81c0475ba2218cc",
    "_SyncObj__connectedToAnyone": "acd40e9e3ac6c4cc",
    "_SyncObj__generateRaftTimeout": "92ed37d3620e781a",
    "_SyncObj__applyLogEntries": "073db677773b5a2d",
    "_SyncObj__tryLogCompaction": "c2f8a0ec14cc7312",
    "_checkCommandsToApply": "a386a8079361d204",
    "transferLeadership": "c3ac67963962d9aa",
}


def source_hash(name: str) -> str:
    return hashlib.sha256(inspect.getsource(getattr(pysyncobj.SyncObj, name)).encode()).hexdigest()[
        :16
    ]


@pytest.mark.parametrize("name", HASHES)
def test_the_source_is_as_it_was(name: str) -> None:
    digest = source_hash(name)

    assert digest == HASHES[name], WHAT_TO_DO.format(name=name, digest=digest)


def test_the_version_is_pinned() -> None:
    assert version("pysyncobj") == "0.3.17"
    assert '"pysyncobj==0.3.17"' in (Path(__file__).parents[3] / "pyproject.toml").read_text()


def test_everything_that_is_replaced_is_watched() -> None:
    replaced = {
        name
        for ours in (Engine, Voter)
        for name in vars(ours)
        if not name.startswith("__") and hasattr(pysyncobj.SyncObj, name)
    }

    assert replaced <= HASHES.keys()
    assert {
        name for ours in (Engine, Voter) for name in vars(ours) if name.startswith("_SyncObj__")
    } <= replaced, "replaces what is not there"


def test_every_private_name_that_is_used_exists() -> None:
    sources = [
        path.read_text()
        for path in Path(str(raftka.metadata.__file__)).parent.glob("quorum/raft_*.py")
    ]
    used = set(re.findall(r"\b_SyncObj__\w+", "".join(sources)))
    voter = Voter(1, [1, 2], Journal.open(MemoryFiles(), "raft", 1), Random(1), 0.0, RaftConfig())

    assert len(used) > 20
    assert {name for name in used if not hasattr(voter, name)} == set()
    assert all(name in vars(pysyncobj.SyncObj) or name in vars(voter) for name in used)


def test_a_change_would_be_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pysyncobj.SyncObj, "_onTick", test_the_version_is_pinned)

    with pytest.raises(AssertionError, match="read what has changed"):
        test_the_source_is_as_it_was("_onTick")
