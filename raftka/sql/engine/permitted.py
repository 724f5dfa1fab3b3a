"""Queries that a server may run: they read streams, tables and topics, and nothing of the machine.
Spark's SQL could also run programs, call any class of Java, and write files.
"""

import re
from collections.abc import Callable
from itertools import pairwise
from typing import TYPE_CHECKING

from pyspark.errors import ParseException

from raftka.sql.language.errors import StatementError
from raftka.sql.language.tokens import Kind, tokens

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

REFLECTION = ("reflect", "try_reflect", "java_method")
NODE = re.compile(r'"class":"org\.apache\.spark\.sql\.[\w.]*(?:logical|execution)\.[\w.]*?(\w+)"')
SCRIPT = "ScriptTransformation"
# nodes of plans that Spark carries out at once
WRITES = re.compile(r"(Insert|Update|Delete|Merge)\w+|\w+Command")


def check_permitted(
    spark: "SparkSession", query: str, refused: Callable[[str, int | None], StatementError]
) -> None:
    """Raise StatementError for a query that does more than to read. `refused`: makes it, of a
    sentence and a place in the query.
    """
    found = list(tokens(query))
    for token, following in pairwise(found):
        name = (token.value if token.kind is Kind.QUOTED else token.text).lower()
        if name in REFLECTION and following.text == "(":
            raise refused(
                f"{name} calls any class of Java, so a server does not run it. Next step: leave it "
                "out",
                token.at,
            )
    try:
        plan = spark._jsparkSession.sessionState().sqlParser().parsePlan(query)
    except ParseException:
        return  # Spark says the same when the query runs, with its place
    nodes = set(NODE.findall(plan.toJSON()))
    if SCRIPT in nodes:
        raise refused(
            "TRANSFORM ... USING runs a program of the server's machine, so a server does not run "
            "it. Next step: SELECT the rows, and run the program on them",
            None,
        )
    if any(WRITES.fullmatch(each) for each in nodes):
        raise refused("a query reads. Next step: CREATE STREAM ... AS SELECT writes its rows", None)
