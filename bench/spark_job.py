"""A driver with two streaming queries that read one topic: one copies it into another topic exactly
once, one into a lake. Ends when a file says so.

Used by bench/spark_kills.py, as a process that is killed and started again with the same
checkpoints.
"""

import json
import sys
import time
from pathlib import Path

from raftka.pipeline.spark import session

LOOK_S = 0.2
BATCH = 300  # records at most


def main() -> int:
    master, settings, servers, source, topic, folder = sys.argv[1:]
    spark = session("kills", json.loads(settings), master=master)
    spark.sparkContext.setLogLevel("OFF")
    brokers = {"kafka.bootstrap.servers": servers}
    given = {
        **brokers,
        "subscribe": source,
        "startingOffsets": "earliest",
        "maxOffsetsPerTrigger": str(BATCH),
        "minPartitions": "3",
    }
    reader = spark.readStream.format("raftka").options(**given)
    rows = reader.load().selectExpr("cast(key as string) as key", "value", "partition")
    copy = rows.writeStream.format("raftka").options(
        **brokers, topic=topic, deliveryGuarantee="exactly-once"
    )
    lake = (
        rows.select("key", "partition")
        .writeStream.format("raftka_delta")
        .option("path", f"{folder}/lake")
    )
    queries = [
        writer.option("checkpointLocation", f"{folder}/{name}").start()
        for name, writer in (("copy", copy), ("lake-checkpoint", lake))
    ]
    while not Path(folder, "stop").exists():
        for query in queries:
            if not query.isActive:
                print(query.exception(), flush=True)
                return 1
        time.sleep(LOOK_S)
    for query in queries:
        query.stop()
    spark.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
