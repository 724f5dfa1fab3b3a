"""Answers of the API as responses of HTTP: documents, refusals, failures."""

import gzip
from collections.abc import Sequence

from raftka.console.call import Answer, ApiError
from raftka.console.protection import HEADERS
from raftka.http.messages import Request, Response
from raftka.json_values import Json, encode_json

JSON_TYPE = "application/json"
NO_STORE = "Cache-Control: no-store"
VARY = "Vary: Accept-Encoding"
SMALL_BYTES = 1024  # answers as small as that are not compressed
GZIP_LEVEL = 4


def respond(status: int, body: bytes, headers: Sequence[str] = ()) -> Response:
    return Response(status, JSON_TYPE, body, (*headers, NO_STORE, *HEADERS))


def document_of(found: Json, request: Request) -> Response:
    """Encode what a handler has returned. For threads: a large answer takes its time."""
    headers: Sequence[str] = ()
    if isinstance(found, Answer):
        found, headers = found
    body = encode_json(found)
    if len(body) > SMALL_BYTES:
        headers = (*headers, VARY)
        if takes_gzip(request):
            body = gzip.compress(body, GZIP_LEVEL, mtime=0)
            headers = (*headers, "Content-Encoding: gzip")
    return respond(200, body, headers)


def refusal_of(error: ApiError, headers: Sequence[str] = ()) -> Response:
    body = encode_json({"error": error.code, "message": str(error)})
    return respond(error.status, body, headers)


def takes_gzip(request: Request) -> bool:
    """Return whether the browser takes gzip. One that refuses it (q=0) gets none."""
    for each in request.headers.get(b"accept-encoding", b"").lower().split(b","):
        coding, _, quality = each.replace(b" ", b"").partition(b";q=")
        if coding == b"gzip":
            return not quality or quality.strip(b"0.") != b""
    return False
