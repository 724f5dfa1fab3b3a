"""`raftka controllers`: voters of the metadata quorum that come and go (KIP-853), through Kafka's
protocol alone.
"""

from base64 import urlsafe_b64decode, urlsafe_b64encode

from raftka.cli.admin.client import TIMEOUT_MS, connect
from raftka.cli.output import CommandFailed, command, show
from raftka.client.blocking.client import Client, check
from raftka.client.blocking.quorum import Quorum, QuorumNode, read_quorum
from raftka.wire.messages.quorum import ADD_RAFT_VOTER, REMOVE_RAFT_VOTER

COLUMNS = ["node", "role", "directory", "endpoints", "behind"]
DIRECTORY_BYTES = 16


@command
def list_controllers(bootstrap_server: str, output: str) -> None:
    with connect(bootstrap_server) as client:
        quorum = _quorum_of(client)
    rows = [
        {
            "node": node.node_id,
            "role": node.role,
            "directory": _text(node.directory_id),
            "endpoints": [
                f"{listener}://{host}:{port}"
                for listener, host, port in quorum.endpoints.get(node.node_id, ())
            ],
            "behind": node.behind,
        }
        for node in quorum.nodes
    ]
    show(rows, COLUMNS, output)


@command
def add(
    node: int,
    address: str,
    listener: str | None,
    directory: str | None,
    bootstrap_server: str,
    output: str,
) -> None:
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal() or not 0 < int(port) < 65536:
        raise CommandFailed(f"--at {address}: HOST:PORT is wanted")
    with connect(bootstrap_server) as client:
        quorum = _quorum_of(client)
        named = next((name for each in quorum.endpoints.values() for name, _, _ in each), None)
        request = ADD_RAFT_VOTER.request
        row = request(
            timeout_ms=TIMEOUT_MS,
            voter_id=node,
            voter_directory_id=_directory(quorum, node, directory),
            listeners=[
                request.listeners(
                    name=listener or named or "CONTROLLER", host=host.strip("[]"), port=int(port)
                )
            ],
        )
        answer = client.ask_controller(ADD_RAFT_VOTER, row)
        check(answer.error_code, answer.error_message)
    show([{"node": node, "role": "voter"}], ["node", "role"], output)


@command
def remove(node: int, directory: str | None, bootstrap_server: str, output: str) -> None:
    with connect(bootstrap_server) as client:
        known = _directory(_quorum_of(client), node, directory)
        row = REMOVE_RAFT_VOTER.request(voter_id=node, voter_directory_id=known)
        answer = client.ask_controller(REMOVE_RAFT_VOTER, row)
        check(answer.error_code, answer.error_message)
    show([{"node": node, "role": "observer"}], ["node", "role"], output)


def _quorum_of(client: Client) -> Quorum:
    quorum = read_quorum(client)
    if quorum is None:
        raise CommandFailed("this cluster has no metadata quorum, or none that the login may see")
    return quorum


def _directory(quorum: Quorum, node_id: int, given: str | None) -> bytes:
    """Return the directory id that was given, or that the leader knows of the node."""
    if given is not None:
        try:
            found = urlsafe_b64decode(given + "==")
        except ValueError:
            found = b""
        if len(found) != DIRECTORY_BYTES:
            raise CommandFailed(f"--directory {given}: 22 characters of base64 are wanted")
        return found
    node: QuorumNode | None = next((n for n in quorum.nodes if n.node_id == node_id), None)
    if node is None:
        raise CommandFailed(
            f"controller {node_id} does not follow the metadata: `raftka controllers list` shows "
            "those that do"
        )
    return node.directory_id


def _text(directory_id: bytes) -> str:
    return urlsafe_b64encode(directory_id).decode().rstrip("=")
