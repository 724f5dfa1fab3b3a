"""Errors that a pipeline shows its user when it cannot go on. Each names the failure, its place and
the next step. Knows no Spark.
"""

import re

RAISED = re.compile(r"raftka\.pipeline\.errors\.\w+: (.*)")


def sentence_in(text: str) -> str | None:
    """The sentence of the last of these errors in a traceback, as Spark hands it on; None: there is
    none.
    """
    found = RAISED.findall(text)
    return str(found[-1]).strip() if found else None


class PipelineError(Exception):
    """The query stops; its checkpoint stays where it was."""


class OptionRefused(PipelineError):
    """An option is missing, misspelt, or asks for an impossible thing."""


class CorruptBatch(PipelineError):
    """Bytes of a topic are no record batch. Nothing is skipped: to go on, the user gives an offset
    to start from.
    """


class DataLoss(PipelineError):
    """Records that were to be read are gone. With failOnDataLoss=false they are left out, with a
    warning, and this is not raised.
    """


class Unreachable(PipelineError):
    """No broker answered in time. The same batch is tried again when the query is."""
