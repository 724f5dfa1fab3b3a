"""Frames of classic sessions and of Spark Connect's. In a definition nothing may ask Spark what a frame looks like, and Connect's frames ask when
they are given a Python function."""

from pyspark.sql import DataFrame
from pyspark.sql.types import StructType


def with_schema(frame: DataFrame, shape: StructType) -> DataFrame:
    """The frame, which knows its columns now."""
    if "connect" in type(frame).__module__:
        frame._cached_schema = shape
    return frame
