"""Decisions on SCRAM credentials: AlterUserScramCredentials.

The handler has checked each change and has made the keys; no password comes this far.
"""

from raftka.metadata.controller.decision import Decision
from raftka.metadata.controller.draft import Draft
from raftka.metadata.records import Record, ScramCredentialRemoved, ScramCredentialSet
from raftka.metadata.security_commands import AlterScramCredentials, ScramResult
from raftka.wire.errors import Code


def decide_alter_scram_credentials(draft: Draft, command: AlterScramCredentials) -> Decision:
    """Remove and set credentials. Deletion of a missing credential gets RESOURCE_NOT_FOUND, and
    does not affect the others.

    A cluster that was formed before logins existed gets its secret with its first credential.
    """
    image, new_secret = draft.image, draft.environment.new_secret
    records: list[Record] = []
    results: list[ScramResult] = []
    if command.upsertions and not image.secret and new_secret is not None:
        records.append(new_secret())
    for deletion in command.deletions:
        known = (deletion.mechanism, deletion.user) in image.scram
        results.append(ScramResult(deletion.user, 0 if known else int(Code.RESOURCE_NOT_FOUND)))
        if known:
            records.append(ScramCredentialRemoved(deletion.mechanism, deletion.user))
    for upsertion in command.upsertions:
        records.append(
            ScramCredentialSet(
                upsertion.mechanism,
                upsertion.user,
                upsertion.salt,
                upsertion.stored_key,
                upsertion.server_key,
                upsertion.iterations,
            )
        )
        results.append(ScramResult(upsertion.user, 0))
    return records, tuple(results)
