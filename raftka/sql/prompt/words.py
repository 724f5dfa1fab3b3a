"""Words that the prompt and the console's page complete."""

from collections.abc import Iterable

from raftka.sql.answers import Words
from raftka.sql.language.types import written_name

KEYWORDS = (
    *("SELECT", "FROM", "WHERE", "GROUP BY", "GROUP BY ALL", "ORDER BY", "HAVING", "LIMIT"),
    *("JOIN", "LEFT JOIN", "ON", "AS", "AND", "OR", "NOT", "NULL", "IS", "IN", "BETWEEN", "LIKE"),
    *("WITH", "VALUES", "DESCRIBE", "EXTENDED", "UNION ALL", "DISTINCT", "CASE", "WHEN", "END"),
    *("EMIT CHANGES", "FROM BEGINNING", "CREATE STREAM", "CREATE TABLE", "CREATE OR REPLACE"),
    *("PRIMARY KEY", "KAFKA_TOPIC", "VALUE_FORMAT", "PARTITIONS", "TIMESTAMP", "INSERT INTO"),
    *("SHOW STREAMS", "SHOW TABLES", "SHOW QUERIES", "SHOW TOPICS", "SHOW FUNCTIONS", "PRINT"),
    *("EXPLAIN", "WINDOW TUMBLING", "WINDOW HOPPING", "WINDOW SESSION", "SIZE", "ADVANCE BY"),
    *("GRACE PERIOD", "WINDOWSTART", "WINDOWEND"),
    *("DROP STREAM", "DROP TABLE", "DELETE TOPIC", "PARTITION BY", "PAUSE", "RESUME", "TERMINATE"),
)


def completions(words: Words) -> Iterable[str]:
    """Return names, keywords and functions as a statement has them, each once. `words`: of the
    server.
    """
    names = (*words.fields, *words.names, *words.topics)
    return dict.fromkeys((*map(written_name, names), *KEYWORDS, *words.functions))
