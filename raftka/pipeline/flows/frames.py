"""Frames of classic sessions and of Spark Connect's. In a definition nothing may ask Spark what a
frame looks like, and Connect's frames ask when they are given a Python function.
"""

from collections.abc import Callable

from pyspark.sql import DataFrame
from pyspark.sql.types import BinaryType, IntegerType, StructType

from raftka.pipeline.flows.packing import BUCKET, PACK, Packing

PACKED = StructType().add(BUCKET, IntegerType()).add(PACK, BinaryType())
PACKS = "_raftka_packs"  # of a frame that is a stream as it was declared


def with_schema(frame: DataFrame, shape: StructType) -> DataFrame:
    """The frame, which knows its columns now."""
    if "connect" in type(frame).__module__:
        frame._cached_schema = shape
    return frame


def of_source(frame: DataFrame, packs: Callable[[Packing], DataFrame | None]) -> DataFrame:
    """Mark a frame whose source can make few rows of many by itself. Return it."""
    setattr(frame, PACKS, packs)
    return frame


def packed_by_source(frame: DataFrame, packing: Packing) -> DataFrame | None:
    """None: its rows come from elsewhere, or something was done with them."""
    packs = frame.__dict__.get(PACKS)  # else a frame would look for a column of this name
    return None if packs is None else packs(packing)
