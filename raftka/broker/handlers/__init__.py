"""One short file per API: what a request means. `MODULES` says where each is; a module is imported
when the first such request comes, so that a node carries what its clients use. ApiVersions
announces exactly these.
"""

from raftka.broker.network.dispatch import CONTROLLER_HANDLERS, HANDLERS, OWN_HANDLERS, register
from raftka.wire.messages.acls import CREATE_ACLS, DELETE_ACLS, DESCRIBE_ACLS
from raftka.wire.messages.api_versions import API_VERSIONS
from raftka.wire.messages.backup import (
    BACKUP_CUT,
    BACKUP_DROP,
    BACKUP_HOLD,
    BACKUP_METADATA,
    BACKUP_READ,
)
from raftka.wire.messages.client_quotas import ALTER_CLIENT_QUOTAS, DESCRIBE_CLIENT_QUOTAS
from raftka.wire.messages.cluster import (
    DESCRIBE_CLUSTER,
    UNREGISTER_BROKER,
    UNREGISTER_CONTROLLER,
)
from raftka.wire.messages.configs import (
    ALTER_CONFIGS,
    DESCRIBE_CONFIGS,
    INCREMENTAL_ALTER_CONFIGS,
    LIST_CONFIG_RESOURCES,
)
from raftka.wire.messages.consumer_groups import CONSUMER_GROUP_DESCRIBE, CONSUMER_GROUP_HEARTBEAT
from raftka.wire.messages.delegation_tokens import (
    CREATE_DELEGATION_TOKEN,
    DESCRIBE_DELEGATION_TOKEN,
    EXPIRE_DELEGATION_TOKEN,
    RENEW_DELEGATION_TOKEN,
)
from raftka.wire.messages.delete_records import DELETE_RECORDS
from raftka.wire.messages.epochs import OFFSET_FOR_LEADER_EPOCH
from raftka.wire.messages.fetch import FETCH
from raftka.wire.messages.find_coordinator import FIND_COORDINATOR
from raftka.wire.messages.groups import (
    DELETE_GROUPS,
    DESCRIBE_GROUPS,
    HEARTBEAT,
    JOIN_GROUP,
    LEAVE_GROUP,
    LIST_GROUPS,
    SYNC_GROUP,
)
from raftka.wire.messages.list_offsets import LIST_OFFSETS
from raftka.wire.messages.log_dirs import ALTER_REPLICA_LOG_DIRS, DESCRIBE_LOG_DIRS
from raftka.wire.messages.metadata import METADATA
from raftka.wire.messages.offsets import OFFSET_COMMIT, OFFSET_DELETE, OFFSET_FETCH
from raftka.wire.messages.partitions import CREATE_PARTITIONS, ELECT_LEADERS
from raftka.wire.messages.produce import PRODUCE
from raftka.wire.messages.producer_ids import INIT_PRODUCER_ID
from raftka.wire.messages.producers import DESCRIBE_PRODUCERS
from raftka.wire.messages.quorum import (
    ADD_RAFT_VOTER,
    DESCRIBE_QUORUM,
    REMOVE_RAFT_VOTER,
    UPDATE_FEATURES,
    UPDATE_RAFT_VOTER,
)
from raftka.wire.messages.reassignments import (
    ALTER_PARTITION_REASSIGNMENTS,
    LIST_PARTITION_REASSIGNMENTS,
)
from raftka.wire.messages.sasl import SASL_AUTHENTICATE, SASL_HANDSHAKE
from raftka.wire.messages.scram import ALTER_USER_SCRAM_CREDENTIALS, DESCRIBE_USER_SCRAM_CREDENTIALS
from raftka.wire.messages.share_acknowledge import SHARE_ACKNOWLEDGE
from raftka.wire.messages.share_fetch import SHARE_FETCH
from raftka.wire.messages.share_groups import SHARE_GROUP_DESCRIBE, SHARE_GROUP_HEARTBEAT
from raftka.wire.messages.share_offsets import (
    ALTER_SHARE_GROUP_OFFSETS,
    DELETE_SHARE_GROUP_OFFSETS,
    DESCRIBE_SHARE_GROUP_OFFSETS,
)
from raftka.wire.messages.share_state import (
    DELETE_SHARE_GROUP_STATE,
    INITIALIZE_SHARE_GROUP_STATE,
    READ_SHARE_GROUP_STATE,
    READ_SHARE_GROUP_STATE_SUMMARY,
    WRITE_SHARE_GROUP_STATE,
)
from raftka.wire.messages.streams_groups import (
    STREAMS_GROUP_DESCRIBE,
    STREAMS_GROUP_HEARTBEAT,
    STREAMS_GROUP_TOPOLOGY_DESCRIPTION_UPDATE,
)
from raftka.wire.messages.telemetry import GET_TELEMETRY_SUBSCRIPTIONS, PUSH_TELEMETRY
from raftka.wire.messages.topic_partitions import DESCRIBE_TOPIC_PARTITIONS
from raftka.wire.messages.topics import CREATE_TOPICS, DELETE_TOPICS
from raftka.wire.messages.transactions import (
    ADD_OFFSETS_TO_TXN,
    ADD_PARTITIONS_TO_TXN,
    DESCRIBE_TRANSACTIONS,
    END_TXN,
    LIST_TRANSACTIONS,
    TXN_OFFSET_COMMIT,
    WRITE_TXN_MARKERS,
)
from raftka.wire.schema import AnyApi

MODULES: dict[str, tuple[AnyApi, ...]] = {
    "acls": (DESCRIBE_ACLS, CREATE_ACLS, DELETE_ACLS),
    "add_offsets_to_txn": (ADD_OFFSETS_TO_TXN,),
    "add_partitions_to_txn": (ADD_PARTITIONS_TO_TXN,),
    "alter_client_quotas": (ALTER_CLIENT_QUOTAS,),
    "alter_configs": (INCREMENTAL_ALTER_CONFIGS, ALTER_CONFIGS),
    "alter_replica_log_dirs": (ALTER_REPLICA_LOG_DIRS,),
    "alter_user_scram_credentials": (ALTER_USER_SCRAM_CREDENTIALS,),
    "alter_share_group_offsets": (ALTER_SHARE_GROUP_OFFSETS,),
    "api_versions": (API_VERSIONS,),
    "consumer_group_describe": (CONSUMER_GROUP_DESCRIBE,),
    "consumer_group_heartbeat": (CONSUMER_GROUP_HEARTBEAT,),
    "create_partitions": (CREATE_PARTITIONS,),
    "create_topics": (CREATE_TOPICS,),
    "delegation_tokens": (
        CREATE_DELEGATION_TOKEN,
        RENEW_DELEGATION_TOKEN,
        EXPIRE_DELEGATION_TOKEN,
        DESCRIBE_DELEGATION_TOKEN,
    ),
    "delete_groups": (DELETE_GROUPS,),
    "delete_records": (DELETE_RECORDS,),
    "delete_share_group_offsets": (DELETE_SHARE_GROUP_OFFSETS,),
    "delete_topics": (DELETE_TOPICS,),
    "describe_client_quotas": (DESCRIBE_CLIENT_QUOTAS,),
    "describe_cluster": (DESCRIBE_CLUSTER,),
    "describe_configs": (DESCRIBE_CONFIGS,),
    "describe_groups": (DESCRIBE_GROUPS,),
    "describe_log_dirs": (DESCRIBE_LOG_DIRS,),
    "describe_producers": (DESCRIBE_PRODUCERS,),
    "describe_quorum": (DESCRIBE_QUORUM,),
    "describe_share_group_offsets": (DESCRIBE_SHARE_GROUP_OFFSETS,),
    "describe_topic_partitions": (DESCRIBE_TOPIC_PARTITIONS,),
    "describe_transactions": (DESCRIBE_TRANSACTIONS,),
    "describe_user_scram_credentials": (DESCRIBE_USER_SCRAM_CREDENTIALS,),
    "elect_leaders": (ELECT_LEADERS,),
    "end_txn": (END_TXN,),
    "fetch": (FETCH,),
    "find_coordinator": (FIND_COORDINATOR,),
    "heartbeat": (HEARTBEAT,),
    "init_producer_id": (INIT_PRODUCER_ID,),
    "join_group": (JOIN_GROUP,),
    "leave_group": (LEAVE_GROUP,),
    "list_config_resources": (LIST_CONFIG_RESOURCES,),
    "list_groups": (LIST_GROUPS,),
    "list_offsets": (LIST_OFFSETS,),
    "list_transactions": (LIST_TRANSACTIONS,),
    "metadata": (METADATA,),
    "offset_commit": (OFFSET_COMMIT,),
    "offset_delete": (OFFSET_DELETE,),
    "offset_fetch": (OFFSET_FETCH,),
    "offset_for_leader_epoch": (OFFSET_FOR_LEADER_EPOCH,),
    "produce": (PRODUCE,),
    "raft_voters": (ADD_RAFT_VOTER, REMOVE_RAFT_VOTER),
    "reassignments": (ALTER_PARTITION_REASSIGNMENTS, LIST_PARTITION_REASSIGNMENTS),
    "sasl": (SASL_HANDSHAKE, SASL_AUTHENTICATE),
    "share_acknowledge": (SHARE_ACKNOWLEDGE,),
    "share_fetch": (SHARE_FETCH,),
    "share_group_state": (
        INITIALIZE_SHARE_GROUP_STATE,
        READ_SHARE_GROUP_STATE,
        WRITE_SHARE_GROUP_STATE,
        DELETE_SHARE_GROUP_STATE,
        READ_SHARE_GROUP_STATE_SUMMARY,
    ),
    "share_group_describe": (SHARE_GROUP_DESCRIBE,),
    "share_group_heartbeat": (SHARE_GROUP_HEARTBEAT,),
    "streams_group_describe": (STREAMS_GROUP_DESCRIBE,),
    "streams_group_heartbeat": (STREAMS_GROUP_HEARTBEAT,),
    "streams_group_topology_description_update": (STREAMS_GROUP_TOPOLOGY_DESCRIPTION_UPDATE,),
    "sync_group": (SYNC_GROUP,),
    "telemetry": (GET_TELEMETRY_SUBSCRIPTIONS, PUSH_TELEMETRY),
    "txn_offset_commit": (TXN_OFFSET_COMMIT,),
    "unregister_broker": (UNREGISTER_BROKER,),
    "unregister_controller": (UNREGISTER_CONTROLLER,),
    "update_features": (UPDATE_FEATURES,),
    "write_txn_markers": (WRITE_TXN_MARKERS,),
}

# of the controllers' listener alone
CONTROLLER_MODULES: dict[str, tuple[AnyApi, ...]] = {
    "controllers": (DESCRIBE_CLUSTER, UPDATE_RAFT_VOTER),
}
# raftka's own
OWN_MODULES: dict[str, tuple[AnyApi, ...]] = {
    "backup": (BACKUP_HOLD, BACKUP_CUT, BACKUP_METADATA, BACKUP_READ, BACKUP_DROP),
}
# APIs of brokers that controllers answer too. The node that leads the quorum carries out changes;
# the others refuse them.
OF_CONTROLLERS: tuple[AnyApi, ...] = (
    SASL_HANDSHAKE,
    API_VERSIONS,
    CREATE_TOPICS,
    DELETE_TOPICS,
    DESCRIBE_ACLS,
    CREATE_ACLS,
    DELETE_ACLS,
    DESCRIBE_CONFIGS,
    ALTER_CONFIGS,
    SASL_AUTHENTICATE,
    CREATE_PARTITIONS,
    CREATE_DELEGATION_TOKEN,
    RENEW_DELEGATION_TOKEN,
    EXPIRE_DELEGATION_TOKEN,
    DESCRIBE_DELEGATION_TOKEN,
    ELECT_LEADERS,
    INCREMENTAL_ALTER_CONFIGS,
    ALTER_PARTITION_REASSIGNMENTS,
    LIST_PARTITION_REASSIGNMENTS,
    ALTER_CLIENT_QUOTAS,
    DESCRIBE_USER_SCRAM_CREDENTIALS,
    ALTER_USER_SCRAM_CREDENTIALS,
    DESCRIBE_QUORUM,
    UPDATE_FEATURES,
    UNREGISTER_BROKER,
    ADD_RAFT_VOTER,
    REMOVE_RAFT_VOTER,
    UNREGISTER_CONTROLLER,
)

for _module, _apis in MODULES.items():
    register(f"{__name__}.{_module}", _apis)
for _module, _apis in CONTROLLER_MODULES.items():
    register(f"{__name__}.{_module}", _apis, CONTROLLER_HANDLERS)
for _module, _apis in OWN_MODULES.items():
    register(f"{__name__}.{_module}", _apis, OWN_HANDLERS)
CONTROLLER_HANDLERS.update((_api.key, HANDLERS[_api.key]) for _api in OF_CONTROLLERS)
