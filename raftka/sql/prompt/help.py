"""`help` at the prompt: the statements, and one of them with an example."""

from difflib import get_close_matches

STATEMENTS = {  # by the words that begin them: the form, a sentence, an example
    "SELECT": (
        "SELECT expressions FROM names [WHERE ...] [GROUP BY ...] [ORDER BY ...] [LIMIT n]",
        "The rows that are there now. A topic stands in `backticks` and has key, value, partition, "
        "offset and timestamp.",
        "SELECT partition, count(*), max(timestamp) FROM `trucks` GROUP BY ALL;",
    ),
    "EMIT CHANGES": (
        "SELECT ... EMIT CHANGES [FROM BEGINNING] [LIMIT n]",
        "Rows as they come, until Ctrl-C.",
        "SELECT truck, speed FROM fast EMIT CHANGES;",
    ),
    "CREATE STREAM": (
        "CREATE [OR REPLACE] STREAM [IF NOT EXISTS] name [(columns)] [WITH (options)] [AS SELECT]",
        "A stream over a topic; with a query, a topic that the query writes from now on.",
        "CREATE STREAM trucks (truck INT, speed DOUBLE) WITH (KAFKA_TOPIC = 'trucks_gps');",
    ),
    "CREATE TABLE": (
        "CREATE TABLE name (id STRING PRIMARY KEY, ...) WITH (options)  |  "
        "CREATE [OR REPLACE] TABLE [IF NOT EXISTS] name AS SELECT ... GROUP BY x",
        "The newest row of each key of a topic, or of each group of a query that goes on.",
        "CREATE TABLE owners (id STRING PRIMARY KEY, name STRING) WITH (KAFKA_TOPIC = 'owners');",
    ),
    "CREATE FUNCTION": (
        "CREATE [OR REPLACE] FUNCTION [IF NOT EXISTS] name FROM 'file.py'",
        "A function in Python, with the decorator @raftka.sql.function(returns='INT').",
        "CREATE FUNCTION distance FROM 'distance.py';",
    ),
    "INSERT": (
        "INSERT INTO stream [(columns)] VALUES (...), ...  |  INSERT INTO stream SELECT ...",
        "Rows, or a query that writes to the stream from now on.",
        "INSERT INTO trucks (truck, speed) VALUES (7, 81.5);",
    ),
    "DROP": (
        "DROP STREAM | TABLE | FUNCTION [IF EXISTS] name [DELETE TOPIC]",
        "Forgets a stream, a table or a function. A query that uses it is terminated first.",
        "DROP STREAM trucks;",
    ),
    "PAUSE": (
        "PAUSE | RESUME | TERMINATE query",
        "Of a query that writes. A terminated one leaves its rows.",
        "PAUSE fast;",
    ),
    "SHOW": (
        "SHOW STREAMS | TABLES | QUERIES | TOPICS | FUNCTIONS",
        "Lists; queries with rows, lag and the last error.",
        "SHOW QUERIES;",
    ),
    "DESCRIBE": (
        "DESCRIBE [EXTENDED] name  |  DESCRIBE FUNCTION name",
        "Columns of a stream, table or topic.",
        "DESCRIBE trucks;",
    ),
    "EXPLAIN": (
        "EXPLAIN SELECT ...  |  EXPLAIN query",
        "Spark's plan of a query, or of one that writes.",
        "EXPLAIN SELECT count(*) FROM trucks WINDOW TUMBLING (SIZE 1 MINUTE) GROUP BY truck;",
    ),
    "PRINT": (
        "PRINT 'topic' [FROM BEGINNING] [LIMIT n]",
        "Records of a topic as they come, until Ctrl-C.",
        "PRINT 'trucks_gps' FROM BEGINNING LIMIT 3;",
    ),
}
KEYS = """\
A statement ends with ; and may have many lines. With \\G instead, each column has its line.
Tab completes names, Ctrl-R searches the history, Ctrl-C ends an answer, Ctrl-D or exit the prompt.
"""


def help_text(words: str) -> str:
    """Return the text for `help WORDS`; empty: of all statements."""
    if not words:
        forms = "\n".join(f"  {form}" for form, _, _ in STATEMENTS.values())
        return f"{forms}\n  help STATEMENT\n\n{KEYS}"
    wanted = " ".join(words.upper().split())
    found = [name for name in STATEMENTS if name.startswith(wanted) or wanted.startswith(name)]
    if not found:
        near = get_close_matches(wanted, STATEMENTS, 1)
        hint = f"; is it {near[0]}?" if near else ""
        return f"there is no help for {wanted}{hint} There is for {', '.join(STATEMENTS)}\n"
    parts = (STATEMENTS[name] for name in found)
    return "\n".join(f"  {form}\n\n{meaning}\n\n  {example}\n" for form, meaning, example in parts)
