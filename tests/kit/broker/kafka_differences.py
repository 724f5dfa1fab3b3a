"""Answers that differ from those of Apache Kafka to the same requests, each with its reason."""

from raftka.metadata.configs.names import OURS
from tests.broker.odd_batches import AT_PLAIN

REQUESTS = [  # (exchanges, field, reason)
    (
        (83,),
        r".*configs\((advertised.listeners|listeners|controller.quorum.voters)\).*",
        "addresses of that run",
    ),
    (
        (83,),
        r".*configs\(broker.(session.timeout|heartbeat.interval).ms\).*",
        "a broker that is gone is replaced sooner",
    ),
    (
        (83,),
        rf".*configs\(({'|'.join(line.split()[0] for line in OURS.strip().splitlines())})\)",
        "settings that Kafka does not have",
    ),
    ((520,), r".*configs\(log.cleaner.threads\).*", "what is set holds as soon as it is answered"),
    ((79,), r".*documentation", "our own words"),
    ((152,), "outcome", "null records are answered"),
    ((172,), r".*records", "batches are not cut"),
    ((225,), r".*", "the first block of producer ids is waited for"),
]
LOGINS = [  # (exchanges, field, reason)
    (
        (24, 26, 28, 30, 301),
        "outcome",
        "requests before the login is over are not decoded: the connection ends",
    ),
    ((98,), r".*", "names beyond ASCII can log in"),
    (
        (110,),
        r".*",
        "an extension that is mandatory and unknown is refused at once, as RFC 5802 wants",
    ),
    ((111,), "outcome", "so nothing follows"),
    (
        (115,),
        r".*",
        "a name that is no token's fails with the last message",
    ),
    ((146,), r".*", "an extension of the last message is under the proof"),
    ((292,), r".error_message", "the words do not name the users"),
    ((294,), r".*", "another mechanism is refused at the handshake"),
]
TOKENS_OF_ISSUERS = [  # (exchanges, field, reason)
    (
        (181,),
        r".auth_bytes",
        "a token that has expired is refused, also within the skew of clocks",
    ),
    ((225,), r".*", "a name with blanks around it is refused"),
    (
        (251,),
        "outcome",
        "a message without a token is answered before the connection ends",
    ),
    ((262,), r".*", "after an invalid token the login is over"),
]
PIPELINED = [  # (exchanges, field, reason)
    ((35,), "outcome", "a frame has at most 64 KiB before the login is over"),
    ((40,), "outcome", "requests before the login is over are not decoded: the connection ends"),
]
WORDS = (353, 354, 355, 356, 357, 358, 379, 380, 383, 384, 385, 392, 395, 396, 400)
RIGHTS = [  # (exchanges, field, reason)
    (
        WORDS,
        r".*error_message",
        "a refusal does not print the request",
    ),
    ((383, 384), r".*responses\(secret\)", "the refusal of a whole request stands at its top"),
    ((381, 382), r".*responses\(2\).error_message", "a refusal of loggers has words too"),
    (
        (391,),
        r".*(error_message|results\(.*\))",
        "the refusal of a whole request stands at its top, with words",
    ),
    ((575,), r".*error_(code|message)", "an empty host is refused, as Kafka 4.4 does"),
    (
        (576, 577, 578, 579),
        r".*error_(code|message)",
        "INVALID_REQUEST and why, in place of an unknown server error",
    ),
]
# refused at once there, and here with the last message of the login, by the same words
LATE = (715, 717, 726)
TOKEN_LOGINS = [  # (exchanges, field, reason)
    (
        LATE,
        "message",
        "a name that is no token's, or no user's, fails with the last message",
    ),
    ((723,), r".*", "a token that has expired lets in nobody, removed or not"),
]
TRANSACTIONS: list[tuple[tuple[int, ...], str, str]] = [  # (exchanges, field, reason)
    (
        (155,),
        r".*\(tf\)\.(transaction_state|transaction_start_time_ms|producer_epoch)",
        "the InitProducerId before has waited for the abort",
    ),
    ((218,), "outcome", "a request for no transactions is answered"),
    (
        (221,),
        r".*error_code",
        "a marker of an epoch that is gone has nothing to end: its coordinator goes on",
    ),
    ((237,), r".*\(tb1\)\.(transaction_state|topics\(ta\))", "so its coordinator completes"),
    ((238,), r".*", "and the id goes on"),
]
ODD_BATCHES = {  # by what docs/compatibility.md tells of them
    "compressed records that are longer or shorter than they say": {
        *(
            "a record longer than it says",
            "a first record longer than it says",
            "a record shorter than it says",
            "a record of size -1",
        ),
        *("a record of size -1000", "a record of 100 MiB", "a record of 2 GiB"),
    },
    "records that are more than 64 MiB when they are opened": {
        name for name in AT_PLAIN if "100 MiB" in name
    },
    "compressed bytes that are damaged": {"compressed: a byte changed"},
}
OF_4_4 = [  # (exchanges, field, reason)
    ((20, 21), r"\.api_keys\((1|5[234689]|6[237]|7[03])\)", "nodes ask controllers otherwise"),
    ((22,), r".*", "controllers look at the node, too"),
    (
        (61, 63, 65, 67),
        r"\.groups\(tie\)\.group_epoch",
        "the epoch stays until something changes",
    ),
]
ELECTIONS = [  # (exchanges, field, reason)
    (
        (216, 220),
        r"\.topics.*\.offline_replicas.*|\.brokers\(1\)",
        "a broker that was shut down is fenced at once",
    ),
    ((220,), r"\.brokers\(0\)\.port|\.controller_id", "addresses of that run"),
]
SHARES = [  # (exchanges, field, reason)
    (
        (88, 89, 90, 98, 163),
        r"\.(error_code|acquisition_lock_timeout_ms|responses.*)",
        "an unknown topic, or a partition that is named twice, does not fail the whole request",
    ),
    ((110, 111), r"\.responses.*acquired_records.*", "no range of no records comes first"),
    ((118,), r"\.responses.*records", "batches are not cut"),
    (
        (247, 248),
        r"\.(responses|results).*",
        "a closing request releases all that its member holds",
    ),
    (
        (301, 302),
        r"\.(results|groups).*\.(start_offset|first_offset)",
        "records that are given up at the same time are one write",
    ),
    ((369,), r"\.results.*\.error_(code|message)", "a batch without an offset is invalid"),
    ((467,), r"\.results\(0\)\.configs\(.*\)\.documentation", "our own words"),
]
STREAMS = [  # (exchanges, field, reason)
    ((15, 19, 22, 23), r"\.error_(code|message)", "bad input has an error of its own and a text"),
    ((148,), r"\.status\(1\)\.status_detail", "two members at the same time"),
    # of processes with equal loads, it says which one gets a task
    (
        (149, 187),
        r"\.groups\(g4r\)\.members\(.*assignment\..*_tasks\(0\)\.partitions.*"
        r"|\.status\(0\)\.status_detail",
        "the order of Kafka's hash tables",
    ),
]
VOTERS: list[tuple[tuple[int, ...], str, str]] = [  # (exchanges, field, reason)
    ((83,), "outcome", "without a leader an error after 30 s, in Kafka silence"),
    ((89,), r".*observers\.2", "controllers join by themselves at once"),
]
TOPOLOGY_DESCRIPTIONS = [  # (exchanges, field, reason)
    (
        (252, 254, 255, 259, 261, 262, 266, 268, 269, 276, 280, 281, 282),
        r"\.error_(code|message)|\.(groups|results).*",
        "a plugin that fails is not there",
    ),
]
