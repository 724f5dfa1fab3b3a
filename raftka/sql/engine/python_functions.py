"""Functions in Python as functions of Spark, in the session of a query that calls them."""

from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql.pandas.functions import arrow_udf
from pyspark.sql.types import StructType

from raftka.pipeline.records.fields import Field, spark_json
from raftka.sql.catalog import Catalog
from raftka.sql.functions import Function, PythonFunction
from raftka.sql.language.errors import StatementError
from raftka.sql.language.reader import called_in

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FORBIDDEN = "functions in Python are switched off on this server. Next step: use another one"


def register_functions(
    spark: "SparkSession", query: str, catalog: Catalog, *, is_allowed: bool
) -> None:
    """Register the functions of the catalog that a query calls. Raise StatementError where they are
    not allowed.
    """
    made = list(catalog.functions())
    called = called_in(query) if made else set()
    for each in made:
        if each.name.lower() in called:
            if not is_allowed:
                raise StatementError(FORBIDDEN, query, query.lower().find(each.name.lower()))
            register_function(spark, each)


def register_function(spark: "SparkSession", made: Function) -> None:
    function = PythonFunction(made)

    def call(*columns: pa.Array) -> pa.Array:
        return function(*columns)

    shape = StructType.fromJson(spark_json((Field("value", made.signature.returns),)))
    spark.udf.register(made.name, arrow_udf(call, shape[0].dataType))


def check_loads(spark: "SparkSession", made: Function) -> None:
    """Run the file of a function in a worker. Raise StatementError, and the error of the file."""
    function = PythonFunction(made)
    own = spark.newSession()
    if own.catalog.functionExists(made.name):
        raise StatementError(f"{made.name} is a function of Spark. Next step: another name")

    def load(values: pa.Array) -> pa.Array:
        function.load()
        return values

    own.range(1).select(arrow_udf(load, "bigint")("id")).collect()
