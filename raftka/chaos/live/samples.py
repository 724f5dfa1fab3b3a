"""Samples of the cluster's own view during a run, twice a second: leaders, ISR, ends, running
nodes. A thread, with requests alone.
"""

import json
import threading
import time
from pathlib import Path

from raftka.chaos.live.recorder import key
from raftka.chaos.live.stage import Stage
from raftka.cluster.ask import ClusterView, ask, call
from raftka.wire.errors import ProtocolError
from raftka.wire.messages.list_offsets import LATEST, LIST_OFFSETS

EVERY_S = 0.5
ASK_S = 0.3
FAILURES = (OSError, ProtocolError)


class Sampler(threading.Thread):
    def __init__(self, stage: Stage, topic: str, path: Path, began: float) -> None:
        super().__init__(name="samples", daemon=True)
        self._stage, self._topic, self._path, self._began = stage, topic, path, began
        self._over = threading.Event()

    def stop(self) -> None:
        self._over.set()
        self.join()

    def run(self) -> None:
        with self._path.open("w", encoding="utf-8") as out:
            while not self._over.wait(EVERY_S):
                out.write(json.dumps(self._sample()) + "\n")
                out.flush()

    def _sample(self) -> dict[str, object]:
        stage, at_s = self._stage, round(time.monotonic() - self._began, 2)
        alive = [node_id for node_id in stage.alive if node_id not in stage.stopped]
        views = [view for node_id in alive if (view := self._view(node_id)) is not None]
        if not views:
            return {
                "at_s": at_s,
                "alive": alive,
                "leaders": {},
                "isr": {},
                "ends": {},
                "high_watermarks": {},
            }
        latest = max(views, key=lambda view: sum(each.leader_epoch for each in view.partitions))
        partitions = latest.of(self._topic)
        ends = self._ends(latest)
        return {
            "at_s": at_s,
            "alive": alive,
            "controller": latest.controller,
            "leaders": {key(each.topic, each.partition): each.leader for each in partitions},
            "isr": {key(each.topic, each.partition): list(each.isr) for each in partitions},
            "ends": ends,
            "high_watermarks": ends,
        }

    def _view(self, node_id: int) -> ClusterView | None:
        try:
            return ask(self._stage.address(node_id), [self._topic], ASK_S, self._stage.admin)
        except FAILURES:
            return None

    def _ends(self, view: ClusterView) -> dict[str, int]:
        found: dict[str, int] = {}
        request = LIST_OFFSETS.request
        for leader in sorted({each.leader for each in view.partitions} & view.brokers.keys()):
            asked = [
                request.topics.partitions(partition_index=p.partition, timestamp=LATEST)
                for p in view.of(self._topic)
                if p.leader == leader
            ]
            ends = request(topics=[request.topics(name=self._topic, partitions=asked)])
            try:
                row = call(
                    view.brokers[leader],
                    LIST_OFFSETS,
                    ends,
                    timeout=ASK_S,
                    security=self._stage.admin,
                )
            except FAILURES:
                continue
            found.update(
                {
                    key(self._topic, p.partition_index): p.offset
                    for p in row.topics[0].partitions
                    if not p.error_code
                }
            )
        return found
