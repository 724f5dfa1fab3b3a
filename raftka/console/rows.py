"""Rows of a list as its pages have them: the parameters of a page, the rows of one, and the brokers
whose part is missing.
"""

from collections.abc import Mapping, Sequence
from typing import TypeVar

from raftka.console.parameters import Number, Parameter
from raftka.json_values import JsonObject

T = TypeVar("T")

MOST_ROWS = 500  # of a page


def paged(size: int = 50, most: int = MOST_ROWS) -> dict[str, Parameter]:
    """Return the parameters of a page. `size`: rows of one that names no size; `most`: of any."""
    return {"page": Number(1, least=1), "size": Number(size, least=1, most=most)}


def rows_of_page(rows: Sequence[T], page: int, size: int) -> Sequence[T]:
    """`page` counts from 1; none are left behind the last one."""
    return rows[(page - 1) * size : page * size]


def missing_nodes(missing: Mapping[int, str]) -> JsonObject:
    """Return the reason why a broker's part is missing, by broker."""
    return {str(node_id): why for node_id, why in sorted(missing.items())}
