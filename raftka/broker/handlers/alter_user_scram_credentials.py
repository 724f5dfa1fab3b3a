"""AlterUserScramCredentials: v0 (KIP-554). The client sends a salted password; the cluster keeps
two keys made of it.
"""

from collections.abc import Mapping, Sequence
from itertools import chain

from raftka.broker.controller.controller_client import ControllerClient
from raftka.broker.network.access.authorizer import THE_CLUSTER
from raftka.broker.network.dispatch import handles
from raftka.broker.network.request import Request
from raftka.broker.work.long_work import Steps
from raftka.metadata.security_commands import (
    AlterScramCredentials,
    ScramDeletion,
    ScramResult,
    ScramUpsertion,
)
from raftka.security.scram import FEWEST_ITERATIONS, HASHES, MOST_ITERATIONS, NUMBERS, credential_of
from raftka.wire.errors import Code
from raftka.wire.messages.scram import (
    ALTER_USER_SCRAM_CREDENTIALS,
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)

response = ALTER_USER_SCRAM_CREDENTIALS.response
TEXTS = {
    Code.RESOURCE_NOT_FOUND: "Attempt to delete a user credential that does not exist",
    Code.DUPLICATE_RESOURCE: "A user credential cannot be altered twice in the same request",
    Code.UNSUPPORTED_SASL_MECHANISM: "Unknown SCRAM mechanism",
    Code.CLUSTER_AUTHORIZATION_FAILED: "Cluster authorization failed.",
}
KEY_BYTES = {1: 32, 2: 64}  # of a salted password, by mechanism
LONGEST_SALT_BYTES = 1024
USERS_OF_COMMAND = 100  # the controller decides a command in one piece
Fault = tuple[Code, str]


def _refuse_all(
    request: Request[AlterUserScramCredentialsRequest], code: Code
) -> Steps[AlterUserScramCredentialsResponse]:
    names: dict[str, None] = {}
    for deletion in request.body.deletions:
        names[deletion.name] = None
        yield
    for upsertion in request.body.upsertions:
        names[upsertion.name] = None
        yield
    rows = request.encoded_rows(response.results)
    for name in names:
        rows.add(response.results(user=name, error_code=int(code), error_message=TEXTS.get(code)))
        yield
    return response(results=rows)


@handles(ALTER_USER_SCRAM_CREDENTIALS, _refuse_all)
async def alter_user_scram_credentials(
    request: Request[AlterUserScramCredentialsRequest], controller: ControllerClient
) -> AlterUserScramCredentialsResponse:
    if not request.may("ALTER", THE_CLUSTER):
        return await request.finish(_refuse_all(request, Code.CLUSTER_AUTHORIZATION_FAILED))
    deletions, upsertions, refused = await request.finish(_read_changes(request.body))
    results: list[ScramResult] = []
    for first in range(0, len(deletions), USERS_OF_COMMAND):
        results += await controller.ask(
            AlterScramCredentials(tuple(deletions[first : first + USERS_OF_COMMAND]), ())
        )
    for first in range(0, len(upsertions), USERS_OF_COMMAND):
        results += await controller.ask(
            AlterScramCredentials((), tuple(upsertions[first : first + USERS_OF_COMMAND]))
        )
    return await request.finish(_make_response(request, results, refused))


def _read_changes(
    body: AlterUserScramCredentialsRequest,
) -> Steps[tuple[list[ScramDeletion], list[ScramUpsertion], dict[str, Fault]]]:
    """Return deletions, upsertions, and the users that are refused without the controller."""
    users: dict[str, int] = {}
    for each in chain[ScramCredentialDeletion | ScramCredentialUpsertion](
        body.deletions, body.upsertions
    ):
        users[each.name] = users.get(each.name, 0) + 1
        yield
    refused: dict[str, Fault] = {}
    deletions: list[ScramDeletion] = []
    upsertions: list[ScramUpsertion] = []
    for deletion in body.deletions:
        if (fault := _find_fault(deletion, users)) is not None:
            refused[deletion.name] = fault
        else:
            deletions.append(ScramDeletion(deletion.name, deletion.mechanism))
        yield
    for upsertion in body.upsertions:
        if (fault := _find_fault(upsertion, users) or _find_unacceptable(upsertion)) is not None:
            refused[upsertion.name] = fault
        else:
            upsertions.append(_make_keys(upsertion))
        yield
    return deletions, upsertions, refused


def _find_fault(
    alteration: ScramCredentialDeletion | ScramCredentialUpsertion, users: Mapping[str, int]
) -> Fault | None:
    if users[alteration.name] > 1:
        return _with_text(Code.DUPLICATE_RESOURCE)
    if not alteration.name:
        return Code.UNACCEPTABLE_CREDENTIAL, "Username must not be empty"
    return None if alteration.mechanism in NUMBERS else _with_text(Code.UNSUPPORTED_SASL_MECHANISM)


def _find_unacceptable(upsertion: ScramCredentialUpsertion) -> Fault | None:
    if upsertion.iterations < FEWEST_ITERATIONS:
        return Code.UNACCEPTABLE_CREDENTIAL, "Too few iterations"
    if upsertion.iterations > MOST_ITERATIONS:
        return Code.UNACCEPTABLE_CREDENTIAL, "Too many iterations"
    if not 0 < len(upsertion.salt) <= LONGEST_SALT_BYTES:
        return Code.UNACCEPTABLE_CREDENTIAL, f"The salt must have 1 to {LONGEST_SALT_BYTES} bytes"
    if len(upsertion.salted_password) != KEY_BYTES[upsertion.mechanism]:
        name, size = HASHES[NUMBERS[upsertion.mechanism]], KEY_BYTES[upsertion.mechanism]
        return (
            Code.UNACCEPTABLE_CREDENTIAL,
            f"The salted password must have the {size} bytes of {name}",
        )
    return None


def _make_keys(upsertion: ScramCredentialUpsertion) -> ScramUpsertion:
    mechanism, salt = NUMBERS[upsertion.mechanism], bytes(upsertion.salt)
    credential = credential_of(
        mechanism, bytes(upsertion.salted_password), salt, upsertion.iterations
    )
    return ScramUpsertion(upsertion.name, upsertion.mechanism, *credential)


def _with_text(code: Code) -> Fault:
    return code, TEXTS[code]


def _make_response(
    request: Request[AlterUserScramCredentialsRequest],
    results: Sequence[ScramResult],
    refused: dict[str, Fault],
) -> Steps[AlterUserScramCredentialsResponse]:
    rows = request.encoded_rows(response.results)
    for result in results:
        rows.add(
            response.results(
                user=result.user,
                error_code=result.error,
                error_message=TEXTS[Code(result.error)] if result.error else None,
            )
        )
        yield
    for user, (code, text) in refused.items():
        rows.add(response.results(user=user, error_code=int(code), error_message=text))
        yield
    return response(results=rows)
