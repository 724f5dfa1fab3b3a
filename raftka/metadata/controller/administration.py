"""The table of decisions on commands of clients and packages: one function for each command.

Commands of brokers about themselves are not in it: `Controller` decides them, because they concern
sessions as well.
"""

from collections.abc import Callable
from typing import Any

from raftka.metadata.commands import (
    Administration,
    AlterConfigs,
    AlterReassignments,
    Command,
    CreatePartitions,
    CreateTopics,
    DeleteTopics,
    ElectLeaders,
    ListReassignments,
    TopicDefaults,
    UpdateFeatures,
    WriteExtension,
)
from raftka.metadata.controller.acls import decide_create_acls, decide_delete_acls
from raftka.metadata.controller.client_quotas import decide_alter_client_quotas
from raftka.metadata.controller.configs import decide_alter_configs
from raftka.metadata.controller.decision import Decision
from raftka.metadata.controller.delegation_tokens import (
    decide_add_token,
    decide_expire_token,
    decide_renew_token,
)
from raftka.metadata.controller.draft import Draft
from raftka.metadata.controller.elections import decide_elect_leaders
from raftka.metadata.controller.extensions import decide_write_extension
from raftka.metadata.controller.features import decide_update_features
from raftka.metadata.controller.reassignments import (
    decide_alter_reassignments,
    decide_list_reassignments,
)
from raftka.metadata.controller.scram_credentials import decide_alter_scram_credentials
from raftka.metadata.controller.topics import (
    decide_create_partitions,
    decide_create_topics,
    decide_delete_topics,
    decide_topic_defaults,
)
from raftka.metadata.security_commands import (
    AddToken,
    AlterClientQuotas,
    AlterScramCredentials,
    CreateAcls,
    DeleteAcls,
    ExpireToken,
    RenewToken,
)

DECISIONS: dict[type[Command], Callable[[Draft, Any], Decision]] = {
    CreateTopics: decide_create_topics,
    DeleteTopics: decide_delete_topics,
    CreatePartitions: decide_create_partitions,
    TopicDefaults: decide_topic_defaults,
    AlterConfigs: decide_alter_configs,
    ElectLeaders: decide_elect_leaders,
    AlterReassignments: decide_alter_reassignments,
    ListReassignments: decide_list_reassignments,
    UpdateFeatures: decide_update_features,
    CreateAcls: decide_create_acls,
    DeleteAcls: decide_delete_acls,
    AlterScramCredentials: decide_alter_scram_credentials,
    AlterClientQuotas: decide_alter_client_quotas,
    AddToken: decide_add_token,
    RenewToken: decide_renew_token,
    ExpireToken: decide_expire_token,
    WriteExtension: decide_write_extension,
}


def decide_in_draft(draft: Draft, command: Administration) -> object:
    """Write the records of a decision into a package's draft, and return the reply.

    Raises KafkaError when the command is refused as a whole.
    """
    records, reply = DECISIONS[type(command)](draft, command)
    draft.write(records)
    return reply
