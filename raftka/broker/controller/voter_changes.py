"""Changes of the voters at the leader of the quorum: AddRaftVoter, RemoveRaftVoter, and a voter's
new end points or directory (KIP-853). Checks come in Kafka's order, with its words.

A node that comes must answer at its end point. RaftCore takes a change only when it is safe. What
may become safe soon, a change before this one or a node that catches up, is waited for, at most
WAIT_S.
"""

from base64 import urlsafe_b64encode
from collections.abc import Sequence
from typing import TYPE_CHECKING

from raftka.metadata.commands import (
    NO_DIRECTORY,
    AddVoter,
    OfVoters,
    RemoveVoter,
    UnregisterController,
    UpdateVoter,
    VoterEndpoints,
)
from raftka.metadata.configs.settings import NodeSettings
from raftka.metadata.image import MetadataImage
from raftka.metadata.quorum.raft_types import VotersRefused
from raftka.metadata.quorum.voter_sets import QuorumVoter, VoterSet, make_set
from raftka.metadata.records import FeatureLevelSet, Record
from raftka.versions import KRAFT_VERSION, Features
from raftka.wire.errors import Code, KafkaError, name_of_code
from raftka.wire.messages.api_versions import ApiVersionsResponse

if TYPE_CHECKING:
    from raftka.metadata.quorum.raft import RaftCore

WAIT_S = 2.0
PENDING = "Request timed out waiting for leader to handle previous voter change request"


def raises_kraft_version(records: Sequence[Record]) -> bool:
    """Return whether the batch moves the voters into the log: it is appended with them."""
    return any(
        isinstance(record, FeatureLevelSet) and record.name == KRAFT_VERSION and record.level > 0
        for record in records
    )


def configured_voters(core: "RaftCore", settings: NodeSettings) -> VoterSet:
    """Return the first set: the voters of controller.quorum.voters, in the directories that they
    have named.
    """
    listener = settings["controller.listener.names"][0]
    return make_set(
        QuorumVoter(
            each.node_id,
            core.directory_of(each.node_id) or NO_DIRECTORY,
            ((listener, each.host, each.port),),
        )
        for each in settings.voters
    )


def forget_controller(
    command: UnregisterController, leader: int, greeted: dict[int, Features]
) -> None:
    """Forget the greeting of a controller. The voters stay as they are. Raises KafkaError."""
    node_id = command.controller_id
    if node_id == leader:
        raise KafkaError(
            Code.INVALID_REQUEST, "Controller cannot unregister itself while it is active."
        )
    if greeted.pop(node_id, None) is None:
        raise KafkaError(
            Code.CONTROLLER_ID_NOT_REGISTERED,
            f"Controller ID {node_id} is not currently registered.",
        )


def changed_set(
    command: OfVoters, core: "RaftCore", image: MetadataImage, settings: NodeSettings
) -> VoterSet:
    """Return the set after the command. Whether a node that comes answers and has the entries is
    not checked. Raises KafkaError, and VotersRefused where the command may be taken later.
    """
    _check(command, core, image, settings)
    voters = core.voter_set
    if voters is None:
        raise KafkaError(Code.UNSUPPORTED_VERSION, _UNSUPPORTED.format(_doing(command)))
    known = next((each for each in voters if each.node_id == command.voter_id), None)
    match command:
        case AddVoter():
            if known is not None:
                raise KafkaError(
                    Code.DUPLICATE_VOTER,
                    f"The voter id for {_key(command)} is already part of the set of voters "
                    f"{_keys(voters)}.",
                )
            return make_set((*voters, _voter(command)))
        case RemoveVoter():
            rest = tuple(each for each in voters if each is not known)
            if known is None or known.directory_id != command.directory_id or not rest:
                raise KafkaError(
                    Code.VOTER_NOT_FOUND,
                    f"Cannot remove voter {_key(command)} from the set of voters {_keys(voters)}",
                )
            return rest
        case UpdateVoter():
            of_directory = known is not None and known.directory_id == command.directory_id
            if known is None or not (command.moves or of_directory):
                raise KafkaError(Code.VOTER_NOT_FOUND)
            return make_set((*(each for each in voters if each is not known), _voter(command)))


def check_caught_up(command: AddVoter, core: "RaftCore") -> None:
    """Raises VotersRefused."""
    if not core.has_caught_up(command.voter_id, command.directory_id):
        raise VotersRefused(f"{_aborted(command)} since it is lagging behind")


def check_answer(command: AddVoter, answer: ApiVersionsResponse | None) -> None:
    """Check the answer of the new voter's end point to ApiVersions; None: it gave none. Raises
    KafkaError.
    """
    if answer is None or answer.error_code:
        # Kafka's words, which leave the voter out
        raise KafkaError(
            Code.REQUEST_TIMED_OUT,
            "Aborted add voter operation for since API_VERSIONS returned an error "
            f"{name_of_code(answer.error_code if answer else Code.BROKER_NOT_AVAILABLE)}",
        )
    low, high = next(
        (
            (each.min_version, each.max_version)
            for each in answer.supported_features
            if each.name == KRAFT_VERSION
        ),
        (0, 0),
    )
    if not low <= 1 <= high:
        raise KafkaError(
            Code.INVALID_REQUEST,
            f"{_aborted(command)} since the {KRAFT_VERSION} range (min: {low}, max: {high}) "
            "doesn't support the finalized version 1",
        )


def _aborted(command: AddVoter) -> str:
    return f"Aborted add voter operation for {_key(command)}"


_UNSUPPORTED = "Cluster doesn't support {} voter because the kraft.version feature is 0"


def _doing(command: OfVoters) -> str:
    return {AddVoter: "adding", RemoveVoter: "removing", UpdateVoter: "updating"}[type(command)]


def _check(
    command: OfVoters, core: "RaftCore", image: MetadataImage, settings: NodeSettings
) -> None:
    """Raises KafkaError, and VotersRefused while another change is under way."""
    if command.cluster_id not in (None, image.cluster_id):
        raise KafkaError(
            Code.INCONSISTENT_CLUSTER_ID,
            f'The given id "{command.cluster_id}" doesn\'t match the cluster id '
            f'"{image.cluster_id}"',
        )
    if isinstance(command, UpdateVoter) and command.leader_epoch >= 0:
        _check_epoch(command.leader_epoch, core.term)
    verb = {AddVoter: "Add", RemoveVoter: "Remove", UpdateVoter: "Update"}[type(command)]
    if command.voter_id < 0 or command.directory_id == NO_DIRECTORY:
        raise KafkaError(Code.INVALID_REQUEST, f"{verb} voter request didn't include a valid voter")
    if not isinstance(command, RemoveVoter):
        listener = settings["controller.listener.names"][0]
        if listener not in [name for name, _, _ in command.endpoints]:
            raise KafkaError(
                Code.INVALID_REQUEST,
                f"{verb} voter request didn't include the endpoint "
                f"({_show_endpoints(command.endpoints)}) for the default listener "
                f"ListenerName({listener})",
            )
        if not command.lowest <= 1 <= command.highest:
            raise KafkaError(
                Code.INVALID_REQUEST, "the node's release does not support kraft.version 1"
            )
    if core.voters_index > core.commit_index:
        raise VotersRefused(PENDING)


def _check_epoch(epoch: int, current: int) -> None:
    """Raises KafkaError."""
    if epoch < current:
        raise KafkaError(Code.FENCED_LEADER_EPOCH)
    if epoch > current:
        raise KafkaError(Code.UNKNOWN_LEADER_EPOCH)


def _voter(command: AddVoter | UpdateVoter) -> QuorumVoter:
    return QuorumVoter(
        command.voter_id,
        command.directory_id,
        command.endpoints,
        command.lowest,
        command.highest,
    )


def _key(voter: OfVoters | QuorumVoter) -> str:
    node_id = voter.node_id if isinstance(voter, QuorumVoter) else voter.voter_id
    directory = urlsafe_b64encode(voter.directory_id).decode().rstrip("=")
    return f"ReplicaKey(id={node_id}, directoryId={directory})"


def _keys(voters: VoterSet) -> str:
    return f"[{', '.join(map(_key, voters))}]"


def _show_endpoints(endpoints: VoterEndpoints) -> str:
    shown = [f"ListenerName({name})={host}/<unresolved>:{port}" for name, host, port in endpoints]
    return f"Endpoints(endpoints={{{', '.join(shown)}}})"
