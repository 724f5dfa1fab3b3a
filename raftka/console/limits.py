"""The console's limits. `GET /api/limits` shows how often each was hit."""

from raftka.limits import KIB, MIB, Limit

# requests
HEAD_BYTES = Limit("console_head_bytes", 16 * KIB, "of a request before its body, cookie and all")
REQUEST_BYTES = Limit(
    "console_request_bytes", 16 * MIB, "of a request's body: records to import, a schema"
)
BODIES_BYTES = Limit(
    "console_bodies_bytes",
    64 * MIB,
    "of all bodies that are not answered yet: then a further one may have 64 KiB",
)
PARAMETER_CHARACTERS = Limit(
    "console_parameter_characters", 4 * KIB, "of one value of a query: a filter, a search"
)
BODY_DEPTH = Limit("console_body_depth", 64, "of a body's lists and objects in each other")

# connections and work
CONNECTIONS = Limit(
    "console_connections", 1_000, "at once: a page has one for each thing it watches; more wait"
)
SECONDS = Limit(
    "console_seconds",
    60,
    "for one request, between two, and until a client takes a piece of a stream",
)
STRANGER_SECONDS = Limit("console_stranger_seconds", 20, "the same, before a login")
AT_WORK = Limit("console_at_work", 16, "requests that threads work at; further ones wait")
WATCHES_AT_WORK = Limit(
    "console_watches_at_work", 8, "threads that read live pages anew: silent brokers hold them up"
)
STREAMS = Limit(
    "console_streams", 16, "searches and exports at once, a thread each; further ones are refused"
)
WATCHES = Limit("console_watches", 500, "pages that are kept live at once; more are refused")
STREAM_BYTES = Limit(
    "console_stream_bytes",
    MIB,
    "of a stream that its client has not taken: then the work behind it waits",
)
EVERY_S = Limit("console_every_seconds", 60, "the longest time between two readings of a watch")

DESCRIBED_GROUPS = Limit(
    "console_described_groups", 2_000, "groups whose members the page of clients asks for"
)

COPIED_TOPICS = Limit(
    "console_copied_topics", 20, "whose replicas the page of reassignments asks brokers about"
)

# schemas
DIFFERENCE_LINES = Limit(
    "console_difference_lines", 3_000, "of each of two schemas that are compared line by line"
)

# SQL
SQL_ROWS = Limit("console_sql_rows", 1_000, "of an answer of SQL that ends, on the page")
SQL_CELL_CHARACTERS = Limit(
    "console_sql_cell_characters", 10_000, "of a value in an answer of SQL; more are cut off"
)
SQL_WAITING = Limit(
    "console_sql_waiting", 256, "pieces of an answer of SQL that its page has not taken"
)

# sessions
SESSIONS = Limit(
    "console_sessions", 200, "logged in at once; the one that is idle for longest leaves"
)
IDLE_SESSION_SECONDS = Limit(
    "console_idle_session_seconds", 3600, "without a request; a page that watches is not idle"
)
CLIENTS = Limit(
    "console_clients", 8, "idle clients that a session keeps; each has connections to brokers"
)
LOGINS = Limit("console_logins", 4, "that brokers are asked about at once; further ones wait")

# the cluster's page
MOVES = Limit("console_moves", 50, "latest moves of leaders and replicas that the page lists")
MIN_ISR_TOPICS = Limit(
    "console_min_isr_topics", 200, "topics without all replicas whose settings are asked for"
)
STUCK_SECONDS = Limit(
    "console_stuck_seconds", 60, "without a commit, though records wait: a group is a finding"
)
LATE_TRANSACTION_MS = Limit(
    "console_late_transaction_ms",
    900_000,
    "that a transaction is open: Kafka's default of transaction.max.timeout.ms",
)
METRICS_BYTES = Limit("console_metrics_bytes", 16 * MIB, "read of a node's metrics")
METRICS_PARTITIONS = Limit(
    "console_metrics_partitions", 5_000, "with more, metrics are too long to be read for a page"
)
# records
PATTERN_CHARACTERS = Limit(
    "console_pattern_characters", 1_000, "of a regular expression: its compilation is quick"
)
PATTERN_TEXT_CHARACTERS = Limit(
    "console_pattern_text_characters",
    10_000,
    "of a text that Python's re searches with more than one endless repetition: its time is a "
    "power of them; records with longer ones are counted as not searched",
)
PATH_STEPS = Limit("console_path_steps", 50, "of a JSON path: each may multiply the places")
FILTERS_AT_ONCE = Limit("console_filters", 20, "headers or paths of one search")
LATE_MS = Limit(
    "console_late_ms",
    3_600_000,
    "a search up to a time reads so much further: records come later than their own time says",
)
SHOWN_CHARACTERS = Limit(
    "console_shown_characters", 2_000, "of a key, value or header in a list of records"
)
WHOLE_CHARACTERS = Limit(
    "console_whole_characters", 2_000_000, "of a key or value that is shown by itself"
)
SHOWN_HEADERS = Limit("console_shown_headers", 100, "of one record")
CURSOR_CHARACTERS = Limit(
    "console_cursor_characters",
    4_000,
    "of the place of a page: with more partitions they are chosen first",
)
BACK_ROUNDS = Limit(
    "console_back_rounds",
    12,
    "steps back, each twice as wide, to fill a page where compaction has left few records",
)
UNREADABLE_SHOWN = Limit(
    "console_unreadable_shown", 5, "batches and records that cannot be read, of a search or a page"
)
IMPORT_ERRORS = Limit("console_import_errors", 20, "lines that are no record, by their number")
# dead letters
REMEMBERED_RANGES = Limit(
    "console_remembered_ranges",
    200_000,
    "of letters that were sent again, neighbours as one; 100 bytes each. A redrive ends before it "
    "would send what cannot be remembered",
)
REMEMBERED_SECONDS = Limit(
    "console_remembered_seconds",
    86_400,
    "that a console which nobody looks at stays, so that no letter is sent twice by mistake",
)
REDRIVES = Limit("console_redrives", 4, "that run at once, a thread each; further ones are refused")
ENDED_REDRIVES = Limit("console_ended_redrives", 100, "whose results are kept; the oldest leaves")
CHOSEN_LETTERS = Limit("console_chosen_letters", 1_000, "that one redrive names by their offsets")
KINDS_OF_FAILURE = Limit(
    "console_kinds_of_failure", 1_000, "that a summary counts apart; further ones are one kind"
)
EXAMINED_LETTERS = Limit(
    "console_examined_letters", 20_000, "for one page of a filter; the page then asks for the next"
)

# view
DUTY = Limit(
    "console_duty",
    20,
    "times of a refresh until the next one may begin: the view takes at most 5 % of a broker",
)
LONGEST_PAUSE_SECONDS = Limit(
    "console_longest_pause_seconds",
    60,
    "after a refresh, however long it took: on a busy machine time is not work",
)
KEPT_AGES = Limit(
    "console_kept_ages",
    10,
    "times the age that a page asks for: a value up to it is shown while a newer one is under way",
)
SINGLE_QUESTIONS = Limit(
    "console_single_questions",
    2_000,
    "partitions or groups of a question of a page; those of a larger one are read of the whole",
)
KEPT_QUESTIONS = Limit(
    "console_kept_questions", 64, "small questions of pages whose answers a view keeps"
)
GROUPS_OF_REQUEST = Limit(
    "console_groups_of_request", 500, "groups of an OffsetFetch: a coordinator does it in slices"
)
ANSWER_SECONDS = Limit(
    "console_answer_seconds", 5, "until a broker counts as missing in an answer about all of them"
)
FIRST_ANSWER_MS = Limit(
    "console_first_answer_ms",
    2_500,
    "that a page waits for a broker at most: its answer is still read, for the next look",
)
SILENT_ANSWER_MS = Limit(
    "console_silent_answer_ms",
    500,
    "the same for a broker that has not answered the question before: a page has several",
)
BULK_ANSWER_SECONDS = Limit(
    "console_bulk_answer_seconds",
    20,
    "the same for all partitions or groups, for which no page waits: a busy broker takes seconds",
)
OLDEST_RATE_SECONDS = Limit(
    "console_oldest_rate_seconds", 120, "between two readings of ends that make a rate of now"
)

# changes
TOPICS_OF_DELETION = Limit(
    "console_topics_of_deletion", 100, "topics of one request that deletes them"
)
SETTINGS_OF_CHANGE = Limit("console_settings_of_change", 100, "settings of one request")

# transactions
DESCRIBED_TRANSACTIONS = Limit(
    "console_described_transactions", 2_000, "open ones that are described for their ages"
)
HELD_PARTITIONS = Limit(
    "console_held_partitions", 200, "held back by transactions, whose producers are looked at"
)

# groups
KEPT_TIMES = Limit(
    "console_kept_times", 50_000, "times of records that a login's view keeps, by their offset"
)
TIMES_BYTES = Limit(
    "console_times_bytes", 16 * MIB, "of batches that one page reads for the lag in seconds"
)
TIMES_OF_REQUEST = Limit(
    "console_times_of_request", 200, "partitions of a Fetch for the lag in seconds"
)
TIMES_ROUNDS = Limit(
    "console_times_rounds", 40, "questions to a broker for the lag in seconds of one page"
)
HISTORIES = Limit(
    "console_histories", 500, "groups whose changes a login's view remembers; the oldest leaves"
)
SAMPLES = Limit(
    "console_samples", 600, "readings of a group that are kept: 20 minutes of a page that watches"
)
EVENTS = Limit("console_events", 200, "changes of a group that are kept")
HELD_BACK = Limit(
    "console_held_back", 200, "partitions of a group whose open transactions one page looks for"
)
TIMED_PARTITIONS = Limit(
    "console_timed_partitions",
    2_000,
    "partitions of the groups of one page whose lag in seconds is read",
)
SECONDS_PARTITIONS = Limit(
    "console_seconds_partitions",
    5_000,
    "whose records one reading of the lag in seconds of all groups asks for: more groups take "
    "several readings",
)
SECONDS_AT_ONCE = Limit(
    "console_seconds_at_once", 1_000, "partitions of one question to all leaders of such a reading"
)
SECONDS_READ_SECONDS = Limit(
    "console_seconds_read_seconds", 5, "for one such reading, without its last question"
)
SECONDS_KEPT_SECONDS = Limit(
    "console_seconds_kept_seconds", 120, "for which a group's time is kept without a newer one"
)
MEMBERS_SHOWN = Limit("console_members_shown", 500, "members of a group that its page lists")
PARTITIONS_OF_FINDING = Limit(
    "console_partitions_of_finding", 50, "partitions that one reason of a standstill names"
)
OFFSETS_OF_CHANGE = Limit(
    "console_offsets_of_change", 10_000, "committed offsets that one change moves or deletes"
)

ALL = (
    MOVES,
    MIN_ISR_TOPICS,
    STUCK_SECONDS,
    LATE_TRANSACTION_MS,
    METRICS_BYTES,
    METRICS_PARTITIONS,
    HEAD_BYTES,
    REQUEST_BYTES,
    BODIES_BYTES,
    PARAMETER_CHARACTERS,
    BODY_DEPTH,
    CONNECTIONS,
    SECONDS,
    STRANGER_SECONDS,
    AT_WORK,
    WATCHES_AT_WORK,
    STREAMS,
    WATCHES,
    STREAM_BYTES,
    EVERY_S,
    SQL_ROWS,
    SQL_CELL_CHARACTERS,
    SQL_WAITING,
    SESSIONS,
    IDLE_SESSION_SECONDS,
    CLIENTS,
    LOGINS,
    PATTERN_CHARACTERS,
    PATTERN_TEXT_CHARACTERS,
    PATH_STEPS,
    FILTERS_AT_ONCE,
    LATE_MS,
    SHOWN_CHARACTERS,
    WHOLE_CHARACTERS,
    SHOWN_HEADERS,
    CURSOR_CHARACTERS,
    BACK_ROUNDS,
    UNREADABLE_SHOWN,
    IMPORT_ERRORS,
    REMEMBERED_RANGES,
    REMEMBERED_SECONDS,
    REDRIVES,
    ENDED_REDRIVES,
    CHOSEN_LETTERS,
    KINDS_OF_FAILURE,
    EXAMINED_LETTERS,
    DESCRIBED_TRANSACTIONS,
    HELD_PARTITIONS,
    KEPT_TIMES,
    TIMES_BYTES,
    TIMES_OF_REQUEST,
    TIMES_ROUNDS,
    HISTORIES,
    SAMPLES,
    EVENTS,
    HELD_BACK,
    TIMED_PARTITIONS,
    SECONDS_PARTITIONS,
    SECONDS_AT_ONCE,
    SECONDS_READ_SECONDS,
    SECONDS_KEPT_SECONDS,
    MEMBERS_SHOWN,
    PARTITIONS_OF_FINDING,
    OFFSETS_OF_CHANGE,
    DESCRIBED_GROUPS,
    COPIED_TOPICS,
    DIFFERENCE_LINES,
)
