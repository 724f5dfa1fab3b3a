"""UpdateFeatures: v0-2 (KIP-584). All that is asked for is done, or none of it."""

from typing import TYPE_CHECKING

from raftka.broker.authorizer import THE_CLUSTER
from raftka.broker.dispatch import Request, handles
from raftka.metadata.commands import FeatureUpdate, UpdateFeatures
from raftka.metadata.features import SAFE_DOWNGRADE, UPGRADE
from raftka.wire.errors import Code, KafkaError
from raftka.wire.messages.quorum import UPDATE_FEATURES
from raftka.wire.schema import Row

if TYPE_CHECKING:
    from raftka.broker.node import Node

response = UPDATE_FEATURES.response


@handles(UPDATE_FEATURES)
async def update_features(request: Request, node: "Node") -> Row:
    body = request.body
    if not request.may("ALTER", THE_CLUSTER):
        return request.answer(error_code=int(Code.CLUSTER_AUTHORIZATION_FAILED))
    updates = tuple([FeatureUpdate(each.feature, each.max_version_level, _upgrade_type(request, each)) for each in body.feature_updates])
    try:
        await node.link.ask(UpdateFeatures(updates, body.validate_only), body.timeout_ms / 1000)
    except KafkaError as error:
        return request.answer(error_code=int(error.code), error_message=error.message)
    rows = [response.results(feature=each.name) for each in updates] if request.version < 2 else []
    return request.answer(results=rows)


def _upgrade_type(request: Request, update: Row) -> int:
    if request.version == 0:
        return SAFE_DOWNGRADE if update.allow_downgrade else UPGRADE
    return int(update.upgrade_type)
