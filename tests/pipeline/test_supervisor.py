"""Flows that fail and begin again, what is added up of their reports, what is made of Spark's
errors. No Spark: queries are plain objects.
"""

import json
import re
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pytest

from raftka.pipeline.flows.supervisor import Supervised, explained
from raftka.pipeline.running.lag import Lag
from raftka.pipeline.topics.positions import Position


class Query:
    def __init__(self) -> None:
        self.isActive = True
        self.status = {"message": "Initializing sources"}
        self.failure: Exception | None = None
        self.recentProgress: list[dict[str, Any]] = []

    def exception(self) -> Exception | None:
        return self.failure

    def report(self, batch: int, rows: int, **more: Any) -> None:
        self.recentProgress.append(
            {
                "runId": "r",
                "batchId": batch,
                "timestamp": f"t{len(self.recentProgress)}",
                "numInputRows": rows,
                **more,
            }
        )

    def fail(self, why: str) -> None:
        self.failure, self.isActive = ValueError(why), False


class Stage:
    """A flow whose starts are counted, and fail when told."""

    def __init__(self) -> None:
        self.queries: list[Query] = []
        self.refuse: str | None = None
        self.ends = 0  # of its topic, as brokers have it now
        self.flow = Supervised("lake", self.start, "/c/lake", lag=self.lag)

    def lag(self, positions: Sequence[Position]) -> Lag:
        return Lag(self.ends - sum(positions[0].offsets.values()), 65.0) if positions else Lag()

    def start(self) -> Query:
        if self.refuse is not None:
            raise ValueError(self.refuse)
        self.queries.append(Query())
        return self.queries[-1]


def test_a_query_that_fails_is_started_again_later_each_time() -> None:
    stage = Stage()
    starts = []
    for tick in range(210):
        before = len(stage.queries)
        stage.flow.check(float(tick))
        if len(stage.queries) > before:
            starts.append(tick)
        elif stage.flow.query is not None:
            stage.queries[-1].fail("broken")

    # it fails one tick after its start, which the next one sees
    pauses = [later - earlier - 2 for earlier, later in pairwise(starts)]
    assert pauses == [1, 2, 4, 8, 16, 32, 60, 60]


def test_a_batch_makes_it_young_again() -> None:
    stage = Stage()
    for tick in range(40):
        stage.flow.check(float(tick))
        if stage.flow.query is not None:
            stage.queries[-1].fail("broken")
    while stage.flow.query is None:
        tick += 1
        stage.flow.check(float(tick))
    stage.queries[-1].report(7, 10)
    stage.queries[-1].fail("broken")

    assert stage.flow.check(tick + 1.0)[-1] == "lake: broken. It is started again in 1 s"


def test_a_start_that_fails_is_tried_again() -> None:
    stage = Stage()
    stage.refuse = "no such option"

    assert stage.flow.check(0.0) == ["lake: no such option. It is started again in 1 s"]
    assert (stage.flow.reported.state, stage.flow.reported.error) == ("failed", "no such option")
    stage.refuse = None
    assert stage.flow.check(0.5) == []
    assert stage.queries == []
    stage.flow.check(1.0)
    assert (len(stage.queries), stage.flow.reported.state) == (1, "running")


def test_each_report_counts_once() -> None:
    stage = Stage()
    stage.flow.check(0.0)
    query = stage.queries[0]
    states = [{"numRowsTotal": 20, "memoryUsedBytes": 1000, "numRowsDroppedByWatermark": 3}]
    query.report(0, 100, batchDuration=1500, stateOperators=states, sink={"numOutputRows": 10})
    query.report(0, 0)
    lines = stage.flow.check(1.0)
    query.report(
        1,
        50,
        batchDuration=500,
        stateOperators=states,
        eventTime={"watermark": "w"},
        sink={"numOutputRows": 2},
        observedMetrics={"raftka_written": {"raftka_written": 1990}},
        sources=[{"endOffset": '{"t": {"0": 5}}', "latestOffset": '{"t": {"0": 9}}'}],
    )
    query.recentProgress.pop(0)  # Spark keeps the last ones only
    stage.ends = 1009
    lines += stage.flow.check(2.0) + stage.flow.check(3.0)

    assert [line.split() for line in lines] == [
        ["lake", "batch", "0", "100", "read", "10", "written", "1.5", "s", "lag", "?", "3", "late"],
        [
            "lake",
            "batch",
            "1",
            "50",
            "read",
            "1,990",
            "written",
            "0.5",
            "s",
            "lag",
            "1,004,",
            "65",
            "s",
            "6",
            "late",
        ],
    ]
    known = stage.flow.reported
    assert (
        known.rows,
        known.written,
        known.batch,
        known.late_rows,
        known.state_rows,
        known.state_bytes,
        known.lag,
        known.watermark,
    ) == (
        150,
        2000,
        1,
        6,
        20,
        1000,
        1004,
        "w",
    )
    stage.ends = 2005  # while a batch runs, which Spark says nothing about
    assert stage.flow.check(4.0) == []
    assert (known.lag, known.age_s) == (2000, 65.0)


def test_a_flow_is_starting_until_its_source_has_answered() -> None:
    stage = Stage()
    assert not stage.flow.is_starting(0.0)
    stage.flow.check(0.0)
    assert stage.flow.is_starting(1.0)
    assert not stage.flow.is_starting(30.0)  # the others do not wait for ever
    stage.queries[0].status["message"] = "Processing new data"
    assert not stage.flow.is_starting(1.0)
    stage.queries[0].report(0, 1)
    stage.flow.check(2.0)
    stage.queries[0].status["message"] = "Getting offsets from raftka"
    assert not stage.flow.is_starting(3.0)
    stage.queries[0].fail("broken")
    stage.flow.check(4.0)
    assert not stage.flow.is_starting(4.0)
    stage.flow.check(5.0)
    assert stage.flow.is_starting(5.0)


@pytest.mark.parametrize(
    ("why", "said"),
    [
        (
            "Job aborted ...\nraftka.pipeline.errors.DataLoss: trucks-0 begins at offset 30 now. "
            "Next step: failOnDataLoss=false\n\tat x",
            "trucks-0 begins at offset 30 now. Next step: failOnDataLoss=false",
        ),
        (
            "[STREAMING_STATEFUL_OPERATOR_NOT_MATCH_IN_STATE_METADATA] x",
            "the query is another one than its checkpoint is of .*move /c/lake away",
        ),
        (
            "java.io.IOException: No space left on device",
            "the disk is full .*make room: it goes on by itself",
        ),
        ("[CONCURRENT_STREAM_LOG_UPDATE] x", "another query writes the same checkpoint"),
        ("a\nb terminated with exception: boom " + "x" * 1000, "boom x{300,}\\.\\.\\.$"),
    ],
)
def test_errors_come_with_the_next_step(why: str, said: str) -> None:
    assert re.search(said, explained(why, "/c/lake")) or explained(why, "/c/lake") == said


def test_rows_of_topics_are_offsets_and_of_others_what_spark_says() -> None:
    from raftka.pipeline.flows.supervisor import rows_of

    def source(start: Any, end: Any, rows: int) -> dict[str, Any]:
        return {"startOffset": start, "endOffset": end, "numInputRows": rows}

    ours = {"t": {"0": 30, "1": 9}, "$raftka": {"began": {"t": {"0": 10, "1": 9}}}}
    assert rows_of({"numInputRows": 7}) == 7
    assert rows_of({"numInputRows": 7, "sources": [source(None, {"logOffset": 0}, 7)]}) == 7
    assert rows_of({"numInputRows": 2, "sources": [source(None, json.dumps(ours), 2)]}) == 20
    assert (
        rows_of(
            {"numInputRows": 0, "sources": [source({"t": {"0": 10}}, {"t": {"0": 15, "1": 2}}, 0)]}
        )
        == 7
    )
    assert (
        rows_of(
            {
                "numInputRows": 3,
                "sources": [
                    source(None, {"t": {"0": 15}}, 3),
                    source({"u": {"0": 1}}, {"u": {"0": 1}}, 0),
                ],
            }
        )
        == 3
    )


def test_rows_written_are_not_rows_read() -> None:
    from raftka.pipeline.flows.supervisor import written_in

    assert written_in({"sink": {"description": "x", "numOutputRows": 7}}) == 7
    assert (
        written_in({"sink": {"description": "x", "numOutputRows": 0}, "observedMetrics": {}}) == 0
    )
    assert written_in({"sink": {"description": "files", "numOutputRows": -1}}) is None
    assert written_in({}) is None
    # no parcel at all
    assert (
        written_in(
            {
                "sink": {"numOutputRows": 3},
                "observedMetrics": {"raftka_written": {"raftka_written": None}},
            }
        )
        == 0
    )
