"""The reason why no random life reaches a guard, by file and text; the first entry that matches
counts. Look at guards without a reason.
"""

import re

ILL = (
    "an ill-formed, contradictory or forbidden request, which no client library sends: tests of "
    "the handlers and generated requests do"
)
ADMIN = "a mistake of an administrator: tests of the commands make it"
LIMIT = "a limit that a life does not come near: tests lower it"
RECORDS = "records that no client library writes: tests/log and hostile input have them"
ROT = (
    "a disk that has more wrong than a crash leaves, or another's: tests of recovery, and seeds "
    "with rot, make it"
)
START = "a start that must not succeed: tests of settings and directories make it"
NEWER = "written by a newer version, or by hand"
VOTERS = "a message that no voter sends: tests/metadata/raft sends it"
MIGRATION = "classic and new members in one group: no life mixes them, tests/coordinator does"
SHORT = "the way out of what there is nothing to do for"
CROWD = "no life asks for pages or crowds a node"
GUARD = "cannot happen: it would be a mistake of ours"
DISK = "a disk that fails in this very call"

# of the file, of the line: regular expressions; the reason
REASONS: tuple[tuple[str, str, str], ...] = (
    (
        "",
        "LimitRefused|LimitExceeded|check_limit|GROUP_MAX_SIZE|"
        "MESSAGE_TOO_LARGE|RECORD_LIST_TOO_LARGE|EntryTooLarge",
        LIMIT,
    ),
    ("", "NotImplementedError|SafetyViolated", GUARD),
    ("", "AUTHORIZATION_FAILED|DENIED|refusal\\)", ILL),
    ("log/(validation|rows|compaction/batch|segments/scan)", "", RECORDS),
    (
        "log/(compaction/files|checkpoints|recovery|directory|manager|future)",
        "Damaged|CheckpointError|LogDirectoryError",
        ROT,
    ),
    ("log/", "CORRUPT_MESSAGE|INVALID_RECORD", RECORDS),
    ("log/producer_state", "OUT_OF_ORDER", RECORDS),
    (
        "log/",
        "DirectoryFailure|KAFKA_STORAGE_ERROR|^raise$|^raise next|self.failed|ahead.result",
        DISK,
    ),
    ("metadata/quorum/journal", "JournalDamaged|WrongDirectory", ROT),
    ("metadata/quorum/recovery", "NotRecoverable", ADMIN),
    ("metadata/quorum/raft", "Malformed|WrongCluster|NotLeader|ValueError", VOTERS),
    ("metadata/configs/describe", "raise", ADMIN),
    ("metadata/configs/", "", START),
    ("metadata/(commands|records)", "", NEWER),
    (
        "metadata/controller/"
        "(topics|assignment|configs|acls|client_quotas|scram_credentials|delegation_tokens|"
        "reassignments|features|elections|directories)",
        "raise",
        ADMIN,
    ),
    (
        "metadata/(controller/(draft|features|controller|extensions)|extension|image)",
        'UNSUPPORTED_VERSION|INVALID_|UnknownRecord|NOT_REGISTERED|^return "',
        ADMIN,
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
    ("coordinator/(consumer/migration|consumer/classic_members|protocol)", "", MIGRATION),
    (
        "coordinator/(consumer/)?records|coordinator/classic/subscription",
        "ValueError|IndexError",
        NEWER,
    ),
    (
        "coordinator/",
        "INVALID_|INCONSISTENT_|UNSUPPORTED|_refuse|compiled|UNKNOWN_TOPIC|NON_EMPTY|SUBSCRIBED|is "
        "not a|message\\)",
        ILL,
    ),
    ("coordinator/overlay", "KeyError", GUARD),
    (
        "broker/handlers/",
        "raise "
        ".*(INVALID_|UNKNOWN_SERVER|UNSUPPORTED|POLICY|UNKNOWN_TOPIC|OUT_OF_RANGE|TRANSACTIONAL)",
        ILL,
    ),
    ("broker/", "ProtocolError|INVALID_REQUEST|INVALID_FETCH_SESSION|TOPIC_ID_ERROR", ILL),
    ("broker/", "STORAGE_ERROR|DirectoryFailure|OSError|logs.offline", DISK),
    (
        "broker/(exporter|telemetry|network/connection_quotas|network/frame_pool|controller/"
        "peer|logs/opener)",
        "",
        "no life asks for pages or crowds a node",
    ),
    (
        "broker/handlers/"
        "(describe|list_|log_levels|unregister|update_features|"
        "elect|alter_replica|api_versions|create|delete)",
        "",
        ADMIN,
    ),
    ("broker/replica/replica_selector", "", "racks, which no life has"),
    (
        "broker/(replica/fetch_session_handler|coordinators/runtime|network/slices|replica/"
        "throttles)",
        "^(return|continue)",
        SHORT,
    ),
    ("", "^(return|continue)( None| False| True| 0| -1| \\(\\)| EMPTY)?( *#.*)?$", SHORT),
)
UNKNOWN = "NO REASON KNOWN"


def reason(file: str, text: str) -> str:
    return next(
        (why for where, what, why in REASONS if re.search(where, file) and re.search(what, text)),
        UNKNOWN,
    )
