"""Every limit of the bridge in one place, as raftka/limits.py has the broker's. Knows no one who
uses them.
"""

from raftka.limits import KIB, MIB, Limit

# connections
PACKET_BYTES = Limit(
    "bridge_packet_bytes",
    MIB - 1,
    "ZooKeeper's jute.maxbuffer: one byte more, and the connection is closed",
)
LOGIN_PACKET_BYTES = Limit(
    "bridge_login_packet_bytes",
    192 * KIB,
    "one packet before a login that is required: clients set their watches again in packets of "
    "128 KiB",
)
CONNECTIONS = Limit(
    "bridge_connections", 2_000, "of one node: file descriptors, and a kilobyte each"
)
REQUESTS_IN_HAND = Limit(
    "bridge_requests_in_hand",
    1_000,
    "requests of one connection that wait; then its bytes wait in the kernel",
)
REQUEST_BYTES_IN_HAND = Limit("bridge_request_bytes_in_hand", 4 * MIB, "the bytes of these")
OUTPUT_BYTES = Limit(
    "bridge_output_bytes",
    8 * MIB,
    "replies and events that a client has not taken; it is closed, for events can not wait",
)
CONNECT_SECONDS = Limit(
    "bridge_connect_seconds", 10, "from the connection to its first whole packet"
)
WAITING_CONNECTS = Limit(
    "bridge_waiting_connects",
    1_000,
    "clients of one node that ask for a session, or wait until the node has reached their zxid",
)

# watches
WATCHES_OF_CONNECTION = Limit(
    "bridge_watches_of_connection",
    100_000,
    "some 200 bytes each, on the node that the client is connected to",
)
WATCHES = Limit("bridge_watches", 1_000_000, "of all connections of a node")
AUTHS_OF_CONNECTION = Limit(
    "bridge_auths_of_connection",
    32,
    "identities of one connection: they go with each of its writes",
)

# the tree and its sessions, of the whole cluster
SESSIONS = Limit("bridge_sessions", 20_000, "each is an entry of the metadata")
ZNODES = Limit(
    "bridge_znodes",
    1_000_000,
    "stored ones: the metadata image is in memory, half a kilobyte each on every node",
)
TREE_BYTES = Limit(
    "bridge_tree_bytes",
    512 * MIB,
    "paths, data and ACLs of all stored znodes: the image, and every snapshot of it",
)
PATH_BYTES = Limit(
    "bridge_path_bytes",
    4 * KIB,
    "a path is the key of an entry; ZooKeeper bounds it by the packet alone",
)
PATH_DEPTH = Limit(
    "bridge_path_depth", 256, "every parent of a path is looked at where recursive watches are"
)
ACL_ENTRIES = Limit("bridge_acl_entries", 100, "of one znode, and looked through with each access")
OPERATIONS_OF_MULTI = Limit("bridge_operations_of_multi", 10_000, "one atomic entry of the log")
READS_OF_MULTI = Limit("bridge_reads_of_multi", 10_000, "of one multiRead")
REPLY_BYTES = Limit(
    "bridge_reply_bytes",
    16 * MIB,
    "one answer to multiRead or getEphemerals: a small request could ask for a hundred times more",
)
CLOSED_BYTES = Limit(
    "bridge_closed_bytes",
    MIB,
    "of ephemerals that go with their session in one entry; the rest goes with the next ones",
)
BATCH_BYTES = Limit(
    "bridge_batch_bytes",
    2 * MIB,
    "requests that one node hands to the controller at once; the others wait for their answer",
)
DECIDED_BYTES = Limit(
    "bridge_decided_bytes",
    3 * MIB,
    "of one entry, beside its last request: a Raft entry may have 8 MiB; the others go with the "
    "next",
)
MULTI_BYTES = Limit(
    "bridge_multi_bytes", 4 * MIB, "that one multi writes: setACL writes the data again"
)

# what is the cluster's
COMMANDS_OF_ENTRY = Limit(
    "bridge_commands_of_entry",
    100,
    "to the controller, in one entry; each looks at an image of its own. The others go with the "
    "next",
)
ANNOUNCEMENTS = Limit(
    "bridge_announcements",
    1_000,
    "znodes in /config/changes for one entry: a znode is written for each entity that changes",
)
