"""The queries of bench/sql.py as a user writes them in PySpark, with the same source, sink and
promise: a process that starts the query of each line, and stops it with the next.

    python -m bench.sql_by_hand BOOTSTRAP TOPIC FOLDER
        filter OUTPUT | windows OUTPUT | stop
"""

import sys

from pyspark.sql import functions as f

from raftka.pipeline.spark import session
from raftka.sql.context import SETTINGS

SCHEMA = "n INT, at BIGINT"
AT_ONCE = "500000"
EVERY = "250 milliseconds"


def main() -> None:
    servers, topic, folder = sys.argv[1:]
    spark = session("by hand", SETTINGS)
    brokers = {"kafka.bootstrap.servers": servers}
    running = None
    for line in sys.stdin:
        if running is not None:
            running.stop()
        kind, _, output = line.strip().partition(" ")
        if kind != "stop":
            given = {
                **brokers,
                "subscribe": topic,
                "startingOffsets": "earliest",
                "maxOffsetsPerTrigger": AT_ONCE,
                "kafka.isolation.level": "read_committed",
            }
            rows = (
                spark.readStream.format("raftka")
                .options(**given)
                .load()
                .select(
                    f.col("key").cast("string").alias("k"),
                    f.from_json(f.col("value").cast("string"), SCHEMA).alias("v"),
                )
                .select("k", "v.*")
            )
            if kind == "filter":
                found = rows.where("n % 2 = 0").select("k", "n")
            else:
                found = (
                    rows.withColumn("moment", f.timestamp_millis("at"))
                    .withWatermark("moment", "10 seconds")
                    .groupBy(f.window("moment", "1 minute"), "k")
                    .agg(f.count("*").alias("c"))
                    .select("k", "c")
                )
            running = (
                found.select(f.to_json(f.struct("*")).alias("value"))
                .repartition(1)  # a partition of a topic has one writer
                .writeStream.format("raftka")
                .options(**brokers, topic=output, deliveryGuarantee="exactly-once")
                .option("checkpointLocation", f"{folder}/{output}")
                .trigger(processingTime=EVERY)
                .start()
            )
        print("done", flush=True)


if __name__ == "__main__":
    main()
