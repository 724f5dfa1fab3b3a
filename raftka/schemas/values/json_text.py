"""JSON documents, parsed strictly."""

import json
from typing import NoReturn

from raftka.json_values import Json
from raftka.schemas.values import Misfit


def parse_json(value: bytes) -> Json:
    """Return the value of a document in UTF-8. Raise Misfit; also for NaN, which is no JSON."""
    try:
        return json.loads(value.decode(), parse_constant=_refuse)
    except UnicodeDecodeError as error:
        raise Misfit(f"no JSON: {error.reason} at byte {error.start}") from None
    except json.JSONDecodeError as error:
        raise Misfit(f"no JSON: {error.msg} at character {error.pos}") from None
    except ValueError as error:  # such as a number with more digits than Python reads
        raise Misfit(f"no JSON of ours: {error}") from None
    except RecursionError:
        raise Misfit("no JSON of ours: it is nested too deeply") from None


def _refuse(text: str) -> NoReturn:
    raise Misfit(f"no JSON: {text}")
