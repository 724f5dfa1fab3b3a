"""The faults of one life: each of the schedule at its time, and in the end all of them undone."""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from functools import partial

from raftka.chaos.simulated.cluster import Cluster
from raftka.chaos.simulated.faults import corruption as faults_of_corruption
from raftka.chaos.simulated.faults import disks as faults_of_disks
from raftka.chaos.simulated.faults import links as faults_of_links
from raftka.chaos.simulated.faults import moments as faults_of_moments
from raftka.chaos.simulated.faults import processes as faults_of_processes
from raftka.chaos.simulated.faults.happened import Happened
from raftka.chaos.simulated.faults.incident import KINDS, Incident, Scene
from raftka.chaos.simulated.faults.moments import Lurker, lurking
from raftka.chaos.simulated.faults.processes import SPREADS_S
from raftka.chaos.simulated.faults.schedule import Fault
from raftka.runtime.simulated.disk import SYNC_S
from raftka.runtime.simulated.link import DELAY_S

KNOWN_BY_IMPORT = (
    faults_of_disks,
    faults_of_links,
    faults_of_moments,
    faults_of_processes,
    faults_of_corruption,
)


class Faults:
    def __init__(
        self, cluster: Cluster, topic: str, partitions: int, planned: Sequence[Fault]
    ) -> None:
        self.cluster = cluster
        self.world = cluster.world
        self.planned = planned
        self.scene = Scene(cluster, topic, partitions)
        if any(fault.kind == "lurk" for fault in planned):
            self.scene.lurker = Lurker(self.scene)

    @property
    def happened(self) -> list[Happened]:
        return self.scene.happened

    def at_their_moments(self) -> AbstractContextManager[object]:
        """While it holds, those that wait for a moment see it."""
        return lurking(self.scene.lurker)

    def begin(self) -> None:
        for fault in self.planned:
            self.world.at(self.world.now + fault.at_s, partial(self._strike, fault))

    def _strike(self, fault: Fault) -> None:
        if not self.scene.over and not self.scene.preparing:
            KINDS[fault.kind](Incident(self.scene, fault.number, fault.kind))

    def heal(self) -> None:
        """No more faults, and none left."""
        self.scene.over = True
        self.world.network.heal()
        random = self.world.random("heal")
        spread_s = random.choice(SPREADS_S)
        for node_id in self.cluster.nodes:
            self.cluster.disk(node_id).sync_s = SYNC_S
            self.world.machine(f"n{node_id}").wall_offset_s = 0.0
            if self.cluster.alive(node_id):
                self.world.resume(f"n{node_id}")
                self.world.end_busy_time(f"n{node_id}")
                if self._cannot_write(node_id):
                    self.cluster.kill(node_id, power_loss=False)
            self.world.at(
                self.world.now + random.uniform(0.0, spread_s), partial(self._start, node_id)
            )
        names = sorted(self.world.machines)
        for a in names:
            for b in names:
                if a < b:
                    self.world.network.delay(a, b, *DELAY_S)

    def _start(self, node_id: int) -> None:
        """A nemesis may have started it meanwhile, with a disk that nobody has seen to."""
        if self.cluster.alive(node_id) and self._cannot_write(node_id):
            self.cluster.kill(node_id, power_loss=False)
        if not self.cluster.alive(node_id):
            self.scene.mend(node_id)
            self.cluster.start(node_id)

    def _cannot_write(self, node_id: int) -> bool:
        """A log that could not be written needs a new process, a disk that is still to fail would
        surprise us later.
        """
        disk = self.cluster.disk(node_id)
        node = self.cluster.nodes[node_id]
        manager = node.replicas.logs
        about_to_fail = (
            disk.broken or disk.failing_writes or disk.failing_syncs or disk.room_bytes is not None
        )
        return bool(about_to_fail or manager.offline or node.lifecycle.withdrawn) or any(
            log.failed for log in manager.logs.values()
        )
