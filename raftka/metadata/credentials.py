"""AlterUserScramCredentials in the controller: which credentials there are from now on. Knows no
password; brokers check what was asked for.
"""

from raftka.metadata.image import MetadataImage
from raftka.metadata.records import Record, ScramCredentialRemoved, ScramCredentialSet
from raftka.metadata.security_commands import AlterScramCredentials, ScramResult
from raftka.wire.errors import Code


def alter_scram_credentials(
    image: MetadataImage, command: AlterScramCredentials
) -> tuple[list[Record], tuple[ScramResult, ...]]:
    """Each by itself: a deletion of what is not there gets RESOURCE_NOT_FOUND, and the others
    count.
    """
    records: list[Record] = []
    results: list[ScramResult] = []
    for deletion in command.deletions:
        known = (deletion.mechanism, deletion.user) in image.scram
        results.append(ScramResult(deletion.user, 0 if known else int(Code.RESOURCE_NOT_FOUND)))
        if known:
            records.append(ScramCredentialRemoved(deletion.mechanism, deletion.user))
    for each in command.upsertions:
        records.append(
            ScramCredentialSet(
                each.mechanism,
                each.user,
                each.salt,
                each.stored_key,
                each.server_key,
                each.iterations,
            )
        )
        results.append(ScramResult(each.user, 0))
    return records, tuple(results)
