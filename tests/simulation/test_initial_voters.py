"""Clusters that begin at kraft.version 1: `raftka broker format` has written the voters into each
directory (KIP-853).
"""

import pytest

from raftka.log.directory import LogDirectoryError
from raftka.metadata.quorum.initial_voters import InitialVoter, parse_initial, show_initial
from raftka.wire.messages.quorum import ADD_RAFT_VOTER
from tests.broker.stage import CONTROLLER_PORT
from tests.simulation.formatted import Formatted, voter


def test_three_voters_form_a_quorum_that_has_them_in_its_log() -> None:
    with Formatted(3, voters=3) as stage:
        assert stage.voters() == {each: voter(each).directory_id for each in (1, 2, 3)}
        assert stage.nodes[1].image.features["kraft.version"] == 1
        stage.wait(lambda: not any(stage.has_file(each) for each in (1, 2, 3)))

        stage.kill(1, power_loss=True)
        stage.start(1)
        stage.wait(stage.nodes[1].ready.is_set)
        assert set(stage.voters()) == {1, 2, 3}


def test_one_voter_forms_a_quorum_and_others_come() -> None:
    with Formatted(2, voters=1) as stage:
        assert stage.voters() == {1: voter(1).directory_id}
        request = ADD_RAFT_VOTER.request
        at = request.listeners(name="CONTROLLER", host="n2", port=CONTROLLER_PORT)
        row = request(
            timeout_ms=8000,
            voter_id=2,
            voter_directory_id=stage.nodes[2].quorum.directory_id,
            listeners=[at],
        )
        assert stage.wire().ask(ADD_RAFT_VOTER, row).error_code == 0
        assert set(stage.voters()) == {1, 2}


def test_a_quorum_is_not_formed_before_all_its_voters_are_there() -> None:
    with Formatted(3, voters=3, wait=False) as stage:
        stage.kill(3)
        stage.world.run(stage.world.now + 20)
        assert all(node.image.cluster_id is None for node in stage.nodes.values())
        stage.start(3)
        stage.wait(lambda: all(node.ready.is_set() for node in stage.nodes.values()))
        assert set(stage.voters()) == {1, 2, 3}


def test_a_directory_that_was_formatted_as_another_one_is_refused() -> None:
    with Formatted(1, voters=1) as stage:
        stage.format(stage.nodes[1].runtime.files, 1, voter(2).directory_id)
        stage.kill(1)
        stage.start(1)
        stage.wait(lambda: 1 in stage.refused)
        assert isinstance(stage.refused[1], LogDirectoryError)


def test_what_is_written_is_read() -> None:
    voters = (voter(1), InitialVoter(2, "::1", 9, bytes(range(16))))
    assert parse_initial(show_initial(voters)) == voters
    for wrong in ("", "1@h:9", "1@h:0:" + "A" * 22, "1@h:9:" + "A" * 21, "x@h:9:" + "A" * 22):
        with pytest.raises(ValueError, match="voters must be id@host:port:directory"):
            parse_initial(wrong)
    with pytest.raises(ValueError, match="named twice"):
        parse_initial(",".join([show_initial((voter(1),))] * 2))
