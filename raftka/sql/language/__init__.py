"""The language of statements. Knows neither Spark nor brokers."""

from raftka.sql.language.errors import StatementError
from raftka.sql.language.parser import parse
from raftka.sql.language.tokens import split

__all__ = ["StatementError", "parse", "split"]
