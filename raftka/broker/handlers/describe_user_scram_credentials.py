"""DescribeUserScramCredentials: v0 (KIP-554). Mechanisms and iterations; salts and keys never leave
the cluster.
"""

from raftka.broker.context import MetadataCache
from raftka.broker.network.access.authorizer import THE_CLUSTER
from raftka.broker.network.dispatch import handles
from raftka.broker.network.request import Request
from raftka.broker.work.long_work import Steps
from raftka.wire.errors import Code
from raftka.wire.messages.scram import (
    DESCRIBE_USER_SCRAM_CREDENTIALS,
    CredentialInfo,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)

response = DESCRIBE_USER_SCRAM_CREDENTIALS.response
result = response.results
UNKNOWN = "Attempt to describe a user credential that does not exist: "
LONGEST_SHOWN = 200  # characters of a name in a message
TWICE = "Cannot describe SCRAM credentials for the same user twice in a single request: "


@handles(DESCRIBE_USER_SCRAM_CREDENTIALS)
def describe_user_scram_credentials(
    request: Request[DescribeUserScramCredentialsRequest], metadata: MetadataCache
) -> Steps[DescribeUserScramCredentialsResponse]:
    if not request.may("DESCRIBE", THE_CLUSTER):
        return response(
            error_code=int(Code.CLUSTER_AUTHORIZATION_FAILED),
            error_message="Cluster authorization failed.",
        )
    infos: dict[str, list[CredentialInfo]] = {}
    for (mechanism, user), credential in metadata.image.scram.items():
        infos.setdefault(user, []).append(
            result.credential_infos(mechanism=mechanism, iterations=credential.iterations)
        )
        yield
    asked: dict[str, int] = {}
    for each in request.body.users or ():
        asked[each.name] = asked.get(each.name, 0) + 1
        yield
    rows = request.encoded_rows(result)
    for user, times in (asked or dict.fromkeys(infos, 1)).items():
        rows.add(_row(user, times, infos.get(user)))
        yield
    return response(error_message="", results=rows)


def _row(
    user: str, times: int, infos: list[CredentialInfo] | None
) -> DescribeUserScramCredentialsResult:
    if times > 1:
        return result(
            user=user,
            error_code=int(Code.DUPLICATE_RESOURCE),
            error_message=TWICE + user[:LONGEST_SHOWN],
        )
    if infos is None:
        return result(
            user=user,
            error_code=int(Code.RESOURCE_NOT_FOUND),
            error_message=UNKNOWN + user[:LONGEST_SHOWN],
        )
    return result(
        user=user, error_message="", credential_infos=sorted(infos, key=lambda info: info.mechanism)
    )
