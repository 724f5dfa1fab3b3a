"""Values of records to columns in a script of one's own, as streams of a project have them."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import pyarrow as pa
from pyspark.sql import Column
from pyspark.sql import functions as f
from pyspark.sql.pandas.functions import arrow_udf
from pyspark.sql.types import StructType

from raftka.json_values import Json
from raftka.pipeline.errors import OptionRefused
from raftka.pipeline.flows.streams import FORMATS, registry_access, schemas_in
from raftka.pipeline.records.arrow_types import ERROR
from raftka.pipeline.records.decoding import Decoder
from raftka.pipeline.records.fields import fields as fields_of
from raftka.pipeline.records.fields import spark_json

VALUES = tuple(each for each in FORMATS if each != "string")


def decode(
    value: Column | str,
    fields: Mapping[str, Json],
    *,
    format: str | Sequence[str] = "json",
    registry: str | Mapping[str, str] | None = None,
    schemas: str | Path | None = None,
) -> Column:
    """Return a struct of the declared fields, and of `_error`: the reason why there are none, else
    null. No record stops the query. `fields`, `format`, `registry` and `schemas` (a folder) mean
    the same as in `streams.yml`. Raise OptionRefused.

    `fields`, `format`, `registry` and `schemas` (a folder) say what they say in `streams.yml`.
    Raises OptionRefused.
    """
    formats = (format,) if isinstance(format, str) else tuple(format)
    if not formats or any(each not in VALUES for each in formats):
        raise OptionRefused(
            f"format is {format!r}: one of {', '.join(VALUES)}, or several such as ['json', 'avro']"
        )
    if "protobuf" in formats and registry is None:
        raise OptionRefused("Protobuf needs a registry, such as registry='http://localhost:8081'")
    if "avro" in formats and (registry is None) == (schemas is None):
        raise OptionRefused(
            "Avro needs a registry, such as registry='http://localhost:8081', or schemas, a "
            "folder with 7.avsc for the schema 7"
        )
    wanted = fields_of(dict(fields), "fields")
    access = None if registry is None else registry_access(registry, "registry", Path(), os.environ)
    decoder = Decoder(formats, wanted, {} if schemas is None else schemas_in(Path(schemas)), access)

    def decoded(values: pa.Array) -> pa.Array:
        return decoder.columns(values)

    kind = StructType.fromJson(spark_json(wanted)).add(ERROR, "string")
    # Said to be random, so that Spark does not decode once to filter and once more to select.
    return arrow_udf(decoded, kind).asNondeterministic()(
        f.col(value) if isinstance(value, str) else value
    )
