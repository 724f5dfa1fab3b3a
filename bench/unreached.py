"""Reasons for which no random life reaches a guard, by file and text. The first entry that matches
counts. A guard without a reason deserves a look.
"""

import re

ILL_FORMED_REQUEST = (
    "an ill-formed, contradictory or forbidden request, which no client library sends: tests of "
    "the handlers and generated requests do"
)
ADMINISTRATOR_MISTAKE = "a mistake of an administrator: tests of the commands make it"
LIMIT_OUT_OF_REACH = "a limit that a life does not come near: tests lower it"
RECORDS_OF_NO_CLIENT = (
    "records that no client library writes: tests/log and hostile input have them"
)
DAMAGED_DISK = (
    "a disk that has more wrong than a crash leaves, or another's: tests of recovery, and seeds "
    "with rot, make it"
)
REFUSED_START = "a start that must not succeed: tests of settings and directories make it"
NEWER_FORMAT = "written by a newer version, or by hand"
MESSAGE_OF_NO_VOTER = "a message that no voter sends: tests/metadata/raft sends it"
MIXED_GROUP = "classic and new members in one group: no life mixes them, tests/coordinator does"
NOTHING_TO_DO = "the way out of what there is nothing to do for"
NO_CROWD = "no life asks for pages or crowds a node"
CANNOT_HAPPEN = "cannot happen: it would be a mistake of ours"
FAILING_DISK = "a disk that fails in this very call"

# of the file, of the line: regular expressions; the reason
REASONS: tuple[tuple[str, str, str], ...] = (
    (
        "",
        "LimitRefused|LimitExceeded|check_limit|GROUP_MAX_SIZE|"
        "MESSAGE_TOO_LARGE|RECORD_LIST_TOO_LARGE|EntryTooLarge",
        LIMIT_OUT_OF_REACH,
    ),
    ("", "NotImplementedError|SafetyViolated", CANNOT_HAPPEN),
    ("", "AUTHORIZATION_FAILED|DENIED|refusal\\)", ILL_FORMED_REQUEST),
    ("log/(validation|rows|compaction/batch|segments/scan)", "", RECORDS_OF_NO_CLIENT),
    (
        "log/(compaction/files|checkpoints|recovery|directory|manager|future)",
        "Damaged|CheckpointError|LogDirectoryError",
        DAMAGED_DISK,
    ),
    ("log/", "CORRUPT_MESSAGE|INVALID_RECORD", RECORDS_OF_NO_CLIENT),
    ("log/producers/state", "OUT_OF_ORDER", RECORDS_OF_NO_CLIENT),
    (
        "log/",
        "DirectoryFailure|KAFKA_STORAGE_ERROR|^raise$|self.failed|ahead.result",
        FAILING_DISK,
    ),
    ("metadata/quorum/journal", "JournalDamaged|WrongDirectory", DAMAGED_DISK),
    ("metadata/quorum/recovery", "NotRecoverable", ADMINISTRATOR_MISTAKE),
    ("metadata/quorum/raft", "Malformed|WrongCluster|NotLeader|ValueError", MESSAGE_OF_NO_VOTER),
    ("metadata/configs/", "", REFUSED_START),
    ("metadata/(commands|records)", "", NEWER_FORMAT),
    (
        "metadata/controller/"
        "(topics|assignment|configs|acls|client_quotas|scram_credentials|delegation_tokens|"
        "reassignments|features|elections|directories)",
        "raise",
        ADMINISTRATOR_MISTAKE,
    ),
    (
        "metadata/(controller/(draft|features|controller|extensions)|extension|image)",
        'UNSUPPORTED_VERSION|INVALID_|NOT_REGISTERED|^return "',
        ADMINISTRATOR_MISTAKE,
    ),
    (
        "metadata/controller/brokers",
        "raise",
        "a broker of another cluster, or two of one number: tests/metadata registers them",
    ),
    (
        "metadata/controller/partitions",
        "INVALID_REQUEST|UNKNOWN_TOPIC|INELIGIBLE|NOT_CONTROLLER",
        "a leader that says what none would: tests/metadata does",
    ),
    ("coordinator/(consumer/migration|consumer/classic_members|protocol)", "", MIXED_GROUP),
    (
        "coordinator/(consumer/)?records|coordinator/classic/group",
        "ValueError|IndexError",
        NEWER_FORMAT,
    ),
    (
        "coordinator/",
        "INVALID_|INCONSISTENT_|UNSUPPORTED|_refuse|compiled|UNKNOWN_TOPIC|NON_EMPTY|SUBSCRIBED|is "
        "not a|message\\)",
        ILL_FORMED_REQUEST,
    ),
    ("coordinator/overlay", "KeyError", CANNOT_HAPPEN),
    (
        "broker/handlers/",
        "raise .*(INVALID_|UNKNOWN_SERVER|UNSUPPORTED|UNKNOWN_TOPIC|OUT_OF_RANGE|TRANSACTIONAL)",
        ILL_FORMED_REQUEST,
    ),
    (
        "broker/",
        "ProtocolError|INVALID_REQUEST|INVALID_FETCH_SESSION|TOPIC_ID_ERROR",
        ILL_FORMED_REQUEST,
    ),
    ("broker/", "STORAGE_ERROR|DirectoryFailure|OSError|logs.offline", FAILING_DISK),
    (
        "broker/(exporter|telemetry|network/connection_quotas|network/frame_pool|controller/"
        "peer)|broker/replica/log_opener",
        "",
        NO_CROWD,
    ),
    (
        "broker/handlers/"
        "(describe|list_|log_levels|unregister|update_features|"
        "elect|alter_replica|api_versions|create|delete)",
        "",
        ADMINISTRATOR_MISTAKE,
    ),
    ("broker/replica/replica_selector", "", "racks, which no life has"),
    (
        "broker/(replica/fetch_session_handler|coordinators/runtime|replica/throttles)|"
        "broker/work/slices",
        "^(return|continue)",
        NOTHING_TO_DO,
    ),
    ("", "^(return|continue)( None| False| True| 0| -1| \\(\\)| EMPTY)?( *#.*)?$", NOTHING_TO_DO),
)
UNKNOWN = "NO REASON KNOWN"


def reason(file: str, text: str) -> str:
    return next(
        (why for where, what, why in REASONS if re.search(where, file) and re.search(what, text)),
        UNKNOWN,
    )
