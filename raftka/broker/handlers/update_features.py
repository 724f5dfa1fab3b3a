"""UpdateFeatures: v0-2 (KIP-584). All updates of a request are made, or none."""

from raftka.broker.controller.controller_client import ControllerClient
from raftka.broker.network.access.authorizer import CLUSTER, REFUSED, THE_CLUSTER
from raftka.broker.network.dispatch import handles
from raftka.broker.network.request import Request
from raftka.broker.work.long_work import Steps
from raftka.metadata.commands import FeatureUpdate, UpdateFeatures
from raftka.metadata.controller.features import SAFE_DOWNGRADE, UPGRADE
from raftka.wire.errors import Code, KafkaError
from raftka.wire.messages.quorum import (
    UPDATE_FEATURES,
    FeatureUpdateKey,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)

response = UPDATE_FEATURES.response
MOST_UPDATES = 100  # there are far fewer features


@handles(UPDATE_FEATURES)
async def update_features(
    request: Request[UpdateFeaturesRequest], controller: ControllerClient
) -> UpdateFeaturesResponse:
    body = request.body
    if not request.may("ALTER", THE_CLUSTER):
        return response(
            error_code=int(Code.CLUSTER_AUTHORIZATION_FAILED), error_message=REFUSED[CLUSTER]
        )
    updates = await request.finish(_read_updates(request))
    try:
        await controller.ask(UpdateFeatures(updates, body.validate_only), body.timeout_ms / 1000)
    except KafkaError as error:
        return response(error_code=int(error.code), error_message=error.message)
    rows = [response.results(feature=each.name) for each in updates] if request.version < 2 else []
    return response(results=rows)


def _read_updates(request: Request[UpdateFeaturesRequest]) -> Steps[tuple[FeatureUpdate, ...]]:
    """Return one update for each feature, at most MOST_UPDATES: with so many, one names an unknown
    feature, and the controller refuses the first of these.
    """
    updates: dict[str, FeatureUpdate] = {}
    for each in request.body.feature_updates:
        if len(updates) < MOST_UPDATES:
            updates.setdefault(
                each.feature,
                FeatureUpdate(
                    each.feature, each.max_version_level, _read_upgrade_type(request, each)
                ),
            )
        yield
    return tuple(updates.values())


def _read_upgrade_type(request: Request[UpdateFeaturesRequest], update: FeatureUpdateKey) -> int:
    if request.version == 0:
        return SAFE_DOWNGRADE if update.allow_downgrade else UPGRADE
    return int(update.upgrade_type)
