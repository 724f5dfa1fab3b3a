"""Judge whether the bytes that come back after a frame are an answer to it. Knows no socket."""

from struct import pack

from raftka.wire.errors import ProtocolError
from raftka.wire.frame import decode_response_header
from raftka.wire.messages.api_versions import API_VERSIONS
from raftka.wire.messages.produce import PRODUCE
from raftka.wire.schema import AnyApi

# a coordinator of no known type: the refusal says that the frame before is done with
END = pack(">ihhihhb", 13, 10, 1, 0x7A7A7A7A, -1, 0, 7)


def judged(api: AnyApi, frame: bytes, answers: list[bytes]) -> str | None:
    """Return the faults of the answers."""
    version = int.from_bytes(frame[2:4], signed=True)
    known = version in api.versions
    if not answers:
        return None if api is PRODUCE else "no answer"  # acks=0 has none
    if len(answers) > 1 or answers[0][:4] != frame[4:8]:
        return "another answer"
    if not known and api is not API_VERSIONS:
        return "an answer to a version that is not served"
    view = memoryview(answers[0])
    version = version if known else 0
    try:
        _, end = api.decode_response(version, view, decode_response_header(view, api, version)[1])
    except ProtocolError as error:
        return f"an answer that is none, {error}"
    return None if end == len(view) else "bytes behind the answer"
