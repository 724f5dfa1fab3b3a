"""An API that no broker knows."""

from raftka.wire.schema import api

NO_BROKER_KNOWS = api(
    "FutureApi", 999, versions="0", flexible="0", request="x int8", response="error_code int16"
)
