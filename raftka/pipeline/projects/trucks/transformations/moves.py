"""Flows with a state for each truck: its latest position, and the fences that it enters and leaves."""

from pathlib import Path

from pyspark import pipelines as dp
from pyspark.sql import DataFrame

from raftka.pipeline.flows.fences import load_fences
from raftka.pipeline.flows.flows import good
from raftka.pipeline.flows.moves import alerts, latest
from raftka.pipeline.flows.streams import load

project = load(Path("streams.yml").resolve())
fences = load_fences(Path("fences.geojson").resolve())


@dp.append_flow(target="positions", name="positions")
def newest_positions() -> DataFrame:
    return latest(good(project, "trucks"))


@dp.append_flow(target="alerts", name="alerts")
def crossings() -> DataFrame:
    return alerts(good(project, "trucks"), fences).repartition(1)  # one task writes: exactly once each partition of a topic must have one writer
