"""Refusals as a client sees them: a status of HTTP, and `{"error": code, "message": sentence}`."""

import re
import traceback
from collections.abc import Callable

from raftka.http.messages import Response
from raftka.json_values import encode_json
from raftka.pipeline.errors import PipelineError
from raftka.pipeline.flows.supervisor import explained
from raftka.sql.language import StatementError
from raftka.sql.server.engine import EngineFailed

JSON_TYPE = "application/json"
HEADERS = ("Cache-Control: no-store", "X-Content-Type-Options: nosniff")
OF_SPARK = re.compile(r"(pyspark|py4j)\b")

Report = Callable[[str, str], None]  # of a failure that is a bug: its subject, and its traceback


class Refusal(Exception):
    """The text is for the user."""

    def __init__(self, status: int, code: str, message: str, header: str = "") -> None:
        """`status`: of HTTP, 400 to 599. `code`: for programs, such as NOT_FOUND. `header`: of the
        response, "Name: value".
        """
        super().__init__(message)
        self.status, self.code, self.header = status, code, header


def refusal_of(error: Exception, report: Report, subject: str) -> Refusal:
    """Return the refusal of a statement that has failed; a bug of ours goes to `report`."""
    if isinstance(error, Refusal):
        return error
    if isinstance(error, EngineFailed):
        return Refusal(503, "NO_ENGINE", str(error))
    if isinstance(error, PipelineError | StatementError):
        return Refusal(400, "STATEMENT_REFUSED", str(error))
    if OF_SPARK.match(type(error).__module__):
        return Refusal(500, "STATEMENT_FAILED", explained(str(error)))
    report(subject, "".join(traceback.format_exception(error)))
    return Refusal(500, "INTERNAL", "the SQL server failed at this statement: see its log")


def respond(status: int, body: bytes, *headers: str) -> Response:
    return Response(status, JSON_TYPE, body, (*headers, *HEADERS))


def refuse(error: Refusal) -> Response:
    body = encode_json({"error": error.code, "message": str(error)})
    return respond(error.status, body, *filter(None, (error.header,)))
