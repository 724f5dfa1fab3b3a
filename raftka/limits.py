"""Every limit of the broker in one place: its default, why that much, and the counter that moves
when it is hit. Knows no one who uses them.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limit:
    name: str
    value: int
    reason: str

    @property
    def metric(self) -> str:
        """The counter of refusals, as /metrics shows it."""
        return f"raftka_limit_{self.name}_total"


class LimitExceeded(ValueError):
    """Someone asked for more than a limit allows; whoever catches it counts it under the limit's
    metric.
    """

    def __init__(self, limit: Limit, asked: int) -> None:
        super().__init__(f"{limit.name}: {asked} asked, {limit.value} allowed ({limit.reason})")
        self.limit = limit
        self.asked = asked


KIB = 1024
MIB = 1024 * 1024

# wire
REQUEST_BYTES = Limit(
    "request_bytes",
    100 * MIB,
    "Kafka's socket.request.max.bytes; memory grows with bytes received, never with the size field",
)
DECODED_OBJECTS = Limit(
    "decoded_objects",
    1_000_000,
    "rows, strings and numbers of one request: Python objects are 10 to 50 times their wire size",
)
TAGGED_FIELDS = Limit(
    "tagged_fields",
    10_000,
    "of one struct of a message, or of a header: they are skipped in one go, 0.5 us each",
)
DECOMPRESSED_BYTES = Limit(
    "decompressed_bytes",
    64 * MIB,
    "a batch is opened only to be validated or compacted, for the former in pieces; bombs reach "
    "32,000:1",
)
HEADERS_OF_RECORD = Limit(
    "headers_of_record", 10_000, "headers of one record, walked only when records are validated"
)

# broker
UNBOUNDED = (1 << 31) - 1  # until a setting says less
CONNECTIONS = Limit(
    "connections", 10_000, "file descriptors and about 3 KB each; max.connections may say less"
)
CONNECTIONS_OF_LISTENER = Limit(
    "connections_of_listener", UNBOUNDED, "max.connections with a listener's prefix"
)
CONNECTIONS_OF_ADDRESS = Limit(
    "connections_of_address", UNBOUNDED, "max.connections.per.ip and its overrides"
)
CONNECTION_RATE = Limit(
    "connection_rate", UNBOUNDED, "max.connection.creation.rate, for one listener with its prefix"
)
PENDING_RECORDS = Limit(
    "pending_records",
    1_000_000,
    "records of a partition that wait for their time: 50 bytes each on its leader; their bytes are "
    "in the log",
)
HELD_CONNECTIONS = Limit(
    "held_connections",
    1_000,
    "connections that come faster than their address may, held for up to 1 s; more are closed at "
    "once",
)
LONG_REQUEST_BYTES = Limit(
    "long_request_bytes",
    512 * KIB,
    "requests above 16 KiB at work at a time; as objects they are twenty times that. Others wait, "
    "one may always begin",
)
LONG_REQUESTS_WAITING_BYTES = Limit(
    "long_requests_waiting_bytes",
    256 * MIB,
    "frames of long requests that wait for the ones at work; then no further long frame is read",
)
REQUESTS_IN_HAND = Limit(
    "requests_in_hand",
    256,
    "requests of one connection that wait for an answer; then its bytes wait in the kernel",
)
OUTPUT_BYTES = Limit(
    "output_bytes",
    8 * MIB,
    "answers of one connection not yet taken by the kernel; then nothing more is read from it",
)
IDLE_SECONDS = Limit("idle_seconds", 600, "Kafka's connections.max.idle.ms")
PARTIAL_FRAME_SECONDS = Limit(
    "partial_frame_seconds", 60, "a frame that has begun must go on: slow drips hold a buffer"
)
ACLS = Limit(
    "acls",
    50_000,
    "of a cluster: about 500 bytes each on every node, and all are read for a filter that is not "
    "exact",
)
ACLS_OF_REQUEST = Limit(
    "acls_of_request",
    10_000,
    "created or deleted in one go, as in Kafka: one entry of the metadata log",
)
FILTERED_ACLS = Limit(
    "filtered_acls",
    50_000,
    "looks at an ACL for one DeleteAcls, 0.5 us each, in one go; filters that name one ACL need "
    "none",
)
CLIENT_QUOTAS = Limit(
    "client_quotas",
    10_000,
    "users, client ids and addresses with quotas of their own: about 500 bytes each on every node",
)
CLIENT_QUOTAS_OF_REQUEST = Limit(
    "client_quotas_of_request",
    10_000,
    "entities and values altered in one go: one entry of the metadata log",
)
QUOTA_NAME_LENGTH = Limit(
    "quota_name_length",
    1024,
    "characters of a user or a client id with a quota; names are kept on every node",
)
QUOTA_SENSORS = Limit(
    "quota_sensors",
    20_000,
    "users and client ids whose use is remembered, 500 bytes each; who used nothing for longest "
    "is forgotten",
)
THROTTLE_SECONDS = Limit(
    "throttle_seconds",
    86_400,
    "longest time for which a client that exceeds a quota is not read from; the answer's field "
    "holds 24 days",
)
DELEGATION_TOKENS = Limit(
    "delegation_tokens", 10_000, "of a cluster: about a kilobyte each on every node"
)
DELEGATION_TOKENS_OF_REQUESTER = Limit(
    "delegation_tokens_of_requester",
    1_000,
    "that one client has asked for: nobody needs a right for his own",
)
TOKEN_BYTES = Limit(
    "token_bytes", 16 * KIB, "characters in the names of a token's owner, requester and renewers"
)
DECISIONS_OF_SESSION = Limit(
    "decisions_of_session",
    10_000,
    "remembered answers about what a client may do; then it begins anew",
)
LOGIN_BYTES = Limit(
    "login_bytes",
    64 * KIB,
    "one frame of a client that is not authenticated yet; sasl.server.max.receive.size may say "
    "less",
)
LOGIN_SECONDS = Limit(
    "login_seconds",
    30,
    "from the connection to the end of the login; clients give up after 10 to 30",
)
KEY_SET_BYTES = Limit(
    "key_set_bytes",
    512 * KIB,
    "the keys of an issuer of tokens, in memory; those of large ones have 20 KiB",
)
KEY_SET_SECONDS = Limit(
    "key_set_seconds", 10, "one try to get an issuer's keys; there is another one after a pause"
)
SCHEMA_DOCUMENT_BYTES = Limit(
    "schema_document_bytes",
    8 * MIB,
    "one answer of a schema registry: a schema of 1 MiB as JSON, or the names of its subjects",
)
SCHEMA_LOOKUP_SECONDS = Limit(
    "schema_lookup_seconds",
    5,
    "one question to a schema registry; then the producer is asked to try again",
)
SCHEMA_LOOKUPS = Limit(
    "schema_lookups",
    16,
    "questions to the schema registry at a time; others wait, and a batch asks one after the other",
)
SCHEMA_DOCUMENTS = Limit(
    "schema_documents",
    10_000,
    "answers of the schema registry that are kept; the one that came first leaves first",
)
SCHEMA_DOCUMENTS_BYTES = Limit(
    "schema_documents_bytes", 64 * MIB, "of these answers, by the bytes that came; likewise"
)
SCHEMAS_OF_BATCH = Limit(
    "schemas_of_batch",
    1_000,
    "different schemas of one batch, each a question to the registry; more are refused",
)
PRINCIPAL_LENGTH = Limit(
    "principal_length",
    256,
    "characters of a Kerberos principal: the patterns of rules are searched in it",
)
PARTIAL_BYTES = Limit(
    "partial_bytes", 1024 * MIB, "bytes of incomplete frames over all connections of a node"
)
BESIDE_BYTES = Limit(
    "beside_bytes",
    256 * MIB,
    "batches, by their size when opened, that wait to be walked or compressed anew beside the "
    "loop; more are refused",
)
PARKED_REQUESTS = Limit(
    "parked_requests",
    100_000,
    "waiting fetches of a node; further ones are answered at once, with the records so far",
)
PARKED_SHARE_FETCHES = Limit(
    "parked_share_fetches",
    100_000,
    "waiting share fetches of a node; further ones are answered at once, with what there is",
)
SHARE_SESSIONS = Limit(
    "share_sessions",
    10_000,
    "of a node, beside group.share.max.share.sessions; further ones are refused",
)
SHARE_SESSION_PARTITIONS = Limit(
    "share_session_partitions",
    1_000_000,
    "partitions in all share sessions of a node, about 100 bytes each; a session that adds more is "
    "closed",
)
SHARE_PARTITIONS = Limit(
    "share_partitions",
    100_000,
    "partitions of share groups that a node leads, about 1 KiB each, and their records in flight; "
    "further ones are refused",
)
HELD_ANSWERS = Limit(
    "held_answers",
    1_000,
    "answers that wait because they name a broker that seems to have died; further ones are not "
    "held",
)
SESSION_PARTITIONS = Limit(
    "session_partitions",
    1_000_000,
    "partitions in all fetch sessions of a node, about 400 bytes each; further readers get none",
)
DESCRIBED_SETTINGS = Limit(
    "described_settings",
    250_000,
    "settings in one answer to DescribeConfigs: half a kilobyte each, 7,500 topics",
)

# controller port
CONTROLLER_FRAME_BYTES = Limit("controller_frame_bytes", 16 * MIB, "twice the largest Raft entry")
GREETING_BYTES = Limit(
    "greeting_bytes", 4096, "bytes that a peer may send to the controller listener before its hello"
)
PEER_OUTPUT_BYTES = Limit(
    "peer_output_bytes",
    8 * MIB,
    "committed entries not yet taken by a slow observer; then it waits",
)
CONTROLLER_CONNECTIONS = Limit(
    "controller_connections", 2_000, "every node of the cluster makes one to each controller"
)
QUORUM_VOTERS = Limit(
    "quorum_voters",
    15,
    "of the metadata: each commit waits for a majority of them, and each node connects to all",
)
RAFT_ENTRY_BYTES = Limit("raft_entry_bytes", 8 * MIB, "one atomic batch of metadata records")
PROPOSALS_IN_FLIGHT = Limit(
    "proposals_in_flight", 4096, "controller commands that wait for their commit, or for their turn"
)
METADATA_SNAPSHOT_BYTES = Limit(
    "metadata_snapshot_bytes",
    1024 * MIB,
    "a snapshot of the metadata that a voter takes from its leader, in memory",
)

# metrics that clients push (KIP-714)
CLIENT_METRICS_INSTANCES = Limit(
    "client_metrics_instances",
    16_384,
    "clients with an instance id on one node, a kilobyte each, as in Kafka: the one that was "
    "silent longest leaves",
)
CLIENT_METRICS_PUSH_BYTES = Limit(
    "client_metrics_push_bytes",
    4 * MIB,
    "one push when it is decompressed; telemetry.max.bytes bounds it as it comes",
)
CLIENT_METRICS_FIELDS = Limit(
    "client_metrics_fields",
    4_000,
    "fields of one Protobuf message of a push, 0.7 us each, read in one go",
)
CLIENT_METRICS_LABEL_BYTES = Limit(
    "client_metrics_label_bytes",
    1 * KIB,
    "name and labels of one series of a client; one with more is not kept",
)
CLIENT_METRICS_SERIES_OF_CLIENT = Limit(
    "client_metrics_series_of_client",
    2_000,
    "series of one client: Java's have 50 to 400; more are not kept",
)
CLIENT_METRICS_SERIES = Limit(
    "client_metrics_series",
    50_000,
    "series of all clients of one node, on its page of metrics; more are not kept",
)
CLIENT_METRICS_BYTES = Limit(
    "client_metrics_bytes",
    16 * MIB,
    "names and labels of all clients' series on one node, in memory; more are not kept",
)
OTLP_WAITING_BYTES = Limit(
    "otlp_waiting_bytes",
    8 * MIB,
    "pushes that wait for the collector of raftka.telemetry.otlp.endpoint: the oldest are dropped",
)
OTLP_ANSWER_BYTES = Limit(
    "otlp_answer_bytes", 64 * KIB, "of an answer of the collector, of which only the status counts"
)
OTLP_SECONDS = Limit(
    "otlp_seconds",
    10,
    "OTLP's own, until the collector has answered; then the pushes are sent anew",
)

# metrics port
CLIENT_SOFTWARE = Limit(
    "client_software",
    50,
    "names and versions of client software in the metrics; connections of others are one line",
)
CLIENT_SOFTWARE_CHARACTERS = Limit(
    "client_software_characters",
    100,
    "of a name or version of client software that a connection keeps; longer ones count as other",
)
HTTP_CONNECTIONS = Limit(
    "http_connections", 16, "Prometheus makes one; each may hold two pages of some megabytes"
)
HTTP_REQUEST_BYTES = Limit("http_request_bytes", 8 * KIB, "a GET with its headers; it has no body")
HTTP_SECONDS = Limit(
    "http_seconds",
    150,
    "from one answer to the next: twice a scrape interval, and a slow reader's end",
)

# host: several brokers on one machine under one supervisor
HOST_BROKERS = Limit(
    "host_brokers", 64, "one process for each core, and one connection of each to every other"
)
HOST_RESTARTS = Limit(
    "host_restarts",
    5,
    "starts of a broker that ended by itself, within ten minutes; one more end is the host's",
)
HOST_PAGE_BYTES = Limit(
    "host_page_bytes",
    64 * MIB,
    "a broker's page of metrics, which the host holds while it puts all together: 200,000 "
    "partitions' lines",
)
HOST_PAGE_SECONDS = Limit(
    "host_page_seconds", 10, "until a broker has given its page; then the host's page is without it"
)

# cluster
PARTITIONS_OF_REQUEST = Limit("partitions_of_request", 10_000, "Kafka's bound for one CreateTopics")
RECORDS_OF_REQUEST = Limit(
    "records_of_request",
    10_000,
    "Kafka's bound for the changes of one request of elections or reassignments",
)
AUTOMATIC_TOPICS = Limit(
    "automatic_topics",
    100,
    "missing topics that Metadata requests wait for on one node; more are for their clients to "
    "ask again",
)
TOPICS = Limit("topics", 100_000, "the metadata image is in memory")
PARTITIONS = Limit("partitions", 200_000, "the metadata image is in memory")
CONFIGURED_RESOURCES = Limit(
    "configured_resources",
    200_000,
    "topics, brokers, groups and client metrics with settings of their own, in memory",
)
SETTINGS_OF_RESOURCE = Limit(
    "settings_of_resource", 1_000, "a broker accepts unknown names, as Kafka's do, for plugins"
)
BROKERS = Limit("brokers", 1_000, "registrations")

# groups
GROUPS_OF_COORDINATOR = Limit(
    "groups_of_coordinator",
    20_000,
    "of one partition of __consumer_offsets, of 50: a kilobyte each, in memory",
)
MEMBERS_OF_GROUP = Limit(
    "members_of_group",
    10_000,
    "the leader hears of all of them in one answer; group.max.size may say less",
)
PENDING_MEMBERS = Limit(
    "pending_members",
    10_000,
    "member ids of one group given out and not used yet; they last as long as a session",
)
MEMBER_PROTOCOL_BYTES = Limit(
    "member_protocol_bytes",
    1 * MIB,
    "names and metadata of a member's protocols: more does not fit into the group's record",
)
MEMBER_BYTES_OF_COORDINATOR = Limit(
    "member_bytes_of_coordinator",
    64 * MIB,
    "memory for members of all groups of one partition of __consumer_offsets, and for ids given "
    "out",
)

SUBSCRIBED_NAMES = Limit(
    "subscribed_names",
    20_000,
    "topics that a member of a consumer group names; each heartbeat with them is one decision. "
    "More: an expression",
)
REGEX_LENGTH = Limit(
    "regex_length", 4096, "characters of a regular expression that a consumer subscribes to"
)
SHARE_STATE_BYTES_OF_GROUP = Limit(
    "share_state_bytes_of_group",
    512 * KIB,
    "the names and share partitions of all topics of a share group stand in one record: more does "
    "not fit into a batch",
)
REGEXES_OF_GROUP = Limit(
    "regexes_of_group",
    100,
    "different ones: each is looked up in all topics' names whenever topics change",
)
TOPICS_OF_TOPOLOGY = Limit(
    "topics_of_topology",
    10_000,
    "subtopologies, topics and their settings that a member of a streams group sends when it "
    "joins; they are looked at whenever topics change",
)
CLIENT_TAGS = Limit(
    "client_tags", 100, "of one member of a streams group; Kafka's client has no more than 5"
)
TOPOLOGY_DESCRIPTION_BYTES = Limit(
    "topology_description_bytes",
    4 * MIB,
    "of descriptions of streams groups that a coordinator keeps in memory, about",
)
TASKS_OF_GROUP = Limit(
    "tasks_of_group",
    20_000,
    "active tasks of a streams group: a member may have all of them, in one record and one answer",
)

# log
PRODUCERS_OF_PARTITION = Limit(
    "producers_of_partition",
    100_000,
    "producer ids remembered by one partition, the oldest leave first",
)
GUARDS_OF_PARTITION = Limit(
    "guards_of_partition",
    20_000,
    "producers whose transactions are about to begin in a partition, 250 bytes each; who asked "
    "longest ago leaves first",
)

# transactions
TRANSACTIONAL_IDS_OF_COORDINATOR = Limit(
    "transactional_ids_of_coordinator",
    20_000,
    "of one partition of __transaction_state, of 50: a kilobyte each, in memory",
)
PARTITIONS_OF_TRANSACTION = Limit(
    "partitions_of_transaction",
    20_000,
    "each gets a marker; each record of the transaction names them, and is read in one piece: 3 "
    "us a topic",
)
TRANSACTION_BYTES = Limit(
    "transaction_bytes",
    900 * KIB,
    "names and numbers of a transaction's partitions: more does not fit into its record",
)
TRANSACTION_BYTES_OF_COORDINATOR = Limit(
    "transaction_bytes_of_coordinator",
    32 * MIB,
    "names and numbers of partitions in all transactions of one partition of __transaction_state",
)
HELD_BY_TRANSACTION = Limit(
    "held_by_transaction",
    100,
    "requests of one id that wait until the markers of its last transaction are written",
)

# share groups
SHARE_PARTITIONS_OF_COORDINATOR = Limit(
    "share_partitions_of_coordinator",
    20_000,
    "of one partition of __share_group_state, of 50: a kilobyte each, in memory",
)
SHARE_BATCHES_OF_PARTITION = Limit(
    "share_batches_of_partition",
    10_000,
    "in the state of one share partition, as many as it may have records in flight: a record of "
    "200 KB",
)
SHARE_BATCHES_OF_COORDINATOR = Limit(
    "share_batches_of_coordinator",
    500_000,
    "in all states of one partition of __share_group_state, 150 bytes each, in memory",
)
SHARE_STATE_CALLS = Limit(
    "share_state_calls",
    20_000,
    "reads and writes of states that a broker has not ended, a kilobyte each; more are refused",
)

# backups
BACKUP_HOLD_MS = Limit(
    "backup_hold_ms",
    10_000,
    "for which one request of a backup may hold commits of transactions; more is cut to this",
)
BACKUP_READ_BYTES = Limit(
    "backup_read_bytes", MIB, "of one answer to a backup that copies files; more is cut to this"
)

# a node's settings
SETTING_FILE_CHARACTERS = 4 * MIB  # of properties, or of a value that a variable ..._FILE names

# tests: the time line of a cluster (raftka/testing/timeline/), and its faults; no node has them
RECORDED_REQUESTS = 10_000  # of one recording; the oldest are dropped
TIMELINE_EVENTS = 5_000  # of one cluster; the oldest are dropped and counted
TIMELINE_LINES = 200  # in the report of one test: what is longer is not read
TIMELINE_CLUSTERS = 8  # that ended within the present test
