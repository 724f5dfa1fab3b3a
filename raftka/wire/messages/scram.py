"""DescribeUserScramCredentials (50) and AlterUserScramCredentials (51): passwords that the cluster
keeps (KIP-554).
"""

from raftka.wire.schema import api, row_classes

DESCRIBE_USER_SCRAM_CREDENTIALS = api(
    "DescribeUserScramCredentials",
    50,
    versions="0",
    flexible="0+",
    request="""
    users UserName[]?
        name                    string
""",
    response="""
    throttle_time_ms            int32
    error_code                  int16
    error_message               string?
    results DescribeUserScramCredentialsResult[]
        user                    string
        error_code              int16
        error_message           string?
        credential_infos CredentialInfo[]
            mechanism           int8        # 1 SCRAM-SHA-256, 2 SCRAM-SHA-512
            iterations          int32
""",
)

ALTER_USER_SCRAM_CREDENTIALS = api(
    "AlterUserScramCredentials",
    51,
    versions="0",
    flexible="0+",
    request="""
    deletions ScramCredentialDeletion[]
        name                    string
        mechanism               int8
    upsertions ScramCredentialUpsertion[]
        name                    string
        mechanism               int8
        iterations              int32
        salt                    bytes
        salted_password         bytes
""",
    response="""
    throttle_time_ms            int32
    results AlterUserScramCredentialsResult[]
        user                    string
        error_code              int16
        error_message           string?
""",
)

__getattr__ = row_classes(DESCRIBE_USER_SCRAM_CREDENTIALS, ALTER_USER_SCRAM_CREDENTIALS)
