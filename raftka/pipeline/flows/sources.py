"""Streams from elsewhere than topics, as views: NAME has the rows that fit, NAME_bad the others as
dead letters. Runs in Spark Connect as well.
"""

import re
from pathlib import Path

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.types import StructType

from raftka.pipeline.connect.specs import CORRUPT, Source
from raftka.pipeline.errors import OptionRefused
from raftka.pipeline.records.fields import spark_json

FILE = "_file"  # the column that says which file a row is from


def declare_source(source: Source) -> None:
    """Raises OptionRefused."""
    folder = folder_of(source.options.get("path", ""))
    if source.kind == "files" and "://" not in folder and not Path(folder).exists():
        raise OptionRefused(
            f"{source.name}: there is no folder {folder} to read files from. Next step: make it"
        )
    dp.temporary_view(name=source.name)(lambda: rows(source))
    dp.temporary_view(name=f"{source.name}_bad")(lambda: bad_rows(source))


def folder_of(path: str) -> str:
    """The part of a path before the first pattern."""
    parts = path.split("/")
    return "/".join(
        parts[
            : next((at for at, each in enumerate(parts) if re.search(r"[*?\[{]", each)), len(parts))
        ]
    )


def rows(source: Source) -> DataFrame:
    """The fields of the rows that fit."""
    found = _read(source).where(~_misfit(source))
    names = [*(each.name for each in source.fields), *([FILE] if source.kind == "files" else [])]
    found = found.select(*names)
    return found if source.watermark is None else found.withWatermark(*source.watermark)


def bad_rows(source: Source) -> DataFrame:
    """Return dead letters: the rows as they were, with headers for the place and the error."""
    kept = f"{CORRUPT}, " if _has_corrupt(source) else ""
    fields = ", ".join(f"`{each.name}`" for each in source.fields)
    value = f"cast(coalesce({kept}to_json(struct({fields}))) as binary) as value"
    headers = [
        ("source", f"'{source.name}'"),
        ("error", _error(source)),
        *([("file", FILE)] if source.kind == "files" else []),
    ]
    pairs = ", ".join(
        f"named_struct('key', '{name}', 'value', cast({what} as binary))" for name, what in headers
    )
    return (
        _read(source)
        .where(_misfit(source))
        .selectExpr("cast(null as binary) as key", value, f"array({pairs}) as headers")
    )


def _read(source: Source) -> DataFrame:
    shape = StructType.fromJson(spark_json(source.fields))
    if _has_corrupt(source):
        shape = shape.add(CORRUPT, "string")
    found = (
        SparkSession.active()
        .readStream.format(source.format)
        .schema(shape)
        .options(**source.options)
        .load()
    )
    return (
        found.select("*", f.col("_metadata.file_path").alias(FILE))
        if source.kind == "files"
        else found
    )


def _has_corrupt(source: Source) -> bool:
    return source.kind == "files" and source.format != "parquet"


def _misfit(source: Source) -> "f.Column":
    """True for rows that do not fit, false for others, never null. Names a field in any case: Spark
    reads no file for its corrupt rows alone.
    """
    wanted = f.col(CORRUPT).isNotNull() if _has_corrupt(source) else f.lit(False)
    for each in source.fields:
        if not each.nullable:
            wanted = wanted | f.col(each.name).isNull()
    return wanted


def _error(source: Source) -> str:
    cases = (
        [f"when {CORRUPT} is not null then 'it is no {source.format} of these fields'"]
        if _has_corrupt(source)
        else []
    )
    cases += [
        f"when `{each.name}` is null then 'there is no {each.name}'"
        for each in source.fields
        if not each.nullable
    ]
    return f"case {' '.join(cases)} else '' end" if cases else "''"
