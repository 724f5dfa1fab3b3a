"""Flows with a state for each truck: its latest position, the fences that it enters and leaves,
whether it is too fast or silent.
"""

from pathlib import Path

from pyspark import pipelines as dp
from pyspark.sql import DataFrame

from raftka.pipeline.flows.fences import load_fences
from raftka.pipeline.flows.flows import good
from raftka.pipeline.flows.streams import load
from raftka.pipeline.projects.trucks.library.moves import alerts, latest, watched

SPEED_KMH = 90.0  # faster is an alert
SILENT_MINUTES = 5.0  # so long without a position is an alert

project = load(Path("streams.yml").resolve())
fences = load_fences(Path("fences.geojson").resolve())


@dp.append_flow(target="positions", name="positions")
def newest_positions() -> DataFrame:
    return latest(good(project, "trucks"))


@dp.append_flow(target="alerts", name="alerts")
def crossings() -> DataFrame:
    # one task writes: exactly once each partition of a topic must have one writer
    return alerts(good(project, "trucks"), fences).repartition(1)


@dp.append_flow(target="alerts", name="watch")
def fast_and_silent() -> DataFrame:
    return watched(
        good(project, "trucks"), speed_kmh=SPEED_KMH, silent_minutes=SILENT_MINUTES
    ).repartition(1)
