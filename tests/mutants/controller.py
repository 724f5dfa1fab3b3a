"""Planted in the controller: who may lead, who is in an ISR, whose word counts."""

from typing import Any

from raftka.broker.controller.controller_host import ControllerHost
from raftka.metadata.controller import assignment, controller, partitions
from raftka.metadata.controller.controller import Controller
from raftka.metadata.controller.directories import DirectoriesHere, Shutdown
from raftka.metadata.image import NO_LEADER, MetadataImage, PartitionImage
from raftka.replication.partition import LeaderState
from tests.mutants.registry import mutant, part_of


@mutant(ControllerHost, "active")
def deposed_controller_confirms(_: Any) -> Any:
    """Zombie controller: what it takes for the commit of its own proposals is that of its
    successor's.
    """
    return property(lambda self: self.machine is not None)


@mutant(ControllerHost, "_release_replies")
def controller_answers_at_once(release: Any) -> Any:
    """The controller answers before what it decided is committed."""

    def bug(self: ControllerHost) -> None:
        self._delayed.reached(self._last_index)
        release(self)

    return bug


@mutant(controller, "find_broker")
def stale_broker_epoch_accepted(_: Any) -> Any:
    """An earlier process of a broker is heard as if it were the one that is registered."""

    def bug(image: MetadataImage, broker_id: int, broker_epoch: int) -> Any:
        return image.brokers[broker_id]

    return bug


@mutant(partitions, "_change_isr")
def isr_change_without_partition_epoch(change_isr: Any) -> Any:
    """A leader's ISR change is carried out although it was thought of before the last one: who has
    left is in again.
    """

    def bug(
        image: MetadataImage, partition: PartitionImage | None, change: Any, leader: int
    ) -> Any:
        known = (
            change
            if partition is None
            else change._replace(partition_epoch=partition.partition_epoch)
        )
        return change_isr(image, partition, known, leader)

    return bug


@mutant(Controller, "_unclean_allowed")
def unclean_election_without_permission(_: Any) -> Any:
    """Any replica may lead when nobody of the ISR is there, although the topic forbids it."""

    def bug(self: Controller, image: MetadataImage, topic: str) -> bool:
        return True

    return bug


@mutant(partitions, "settle")
def leads_who_is_first(settle: Any) -> Any:
    """After a leader's death the first living replica leads, in the ISR or not."""

    def bug(topic: str, partition: PartitionImage, alive: Any, *rest: Any) -> PartitionImage:
        after: PartitionImage = settle(topic, partition, alive, *rest)
        if after.leader in (partition.leader, NO_LEADER):
            return after
        first = next(each for each in after.replicas if each in alive and each not in after.offline)
        return after._replace(leader=first, isr=tuple({first: None, **dict.fromkeys(after.isr)}))

    return bug


@mutant(partitions, "moved")
def election_in_the_same_epoch(moved: Any) -> Any:
    """A new leader begins in its predecessor's epoch: who wrote what cannot be told any more."""

    def bug(before: PartitionImage, after: PartitionImage, *rest: Any) -> PartitionImage:
        done: PartitionImage = moved(before, after, *rest)
        return (
            done._replace(leader_epoch=before.leader_epoch) if before.leader == NO_LEADER else done
        )

    return bug


@mutant(partitions, "_complete_reassignment")
def reassignment_ends_too_early(complete: Any) -> Any:
    """A reassignment is complete before those that it adds have everything: the old replicas go,
    and take it with them.
    """

    def bug(partition: PartitionImage) -> PartitionImage:
        if not partition.adding or partition.leader == NO_LEADER:
            return complete(partition)  # type: ignore[no-any-return]
        isr = tuple(dict.fromkeys((*partition.isr, *partition.adding)))
        return complete(partition._replace(isr=isr))  # type: ignore[no-any-return]

    return bug


@mutant(DirectoriesHere, "has")
def believes_every_directory(_: Any) -> Any:
    """Another disk is mounted where one was, and its broker counts on with what it finds:
    nothing.
    """

    def bug(self: DirectoriesHere, replica: tuple[bytes, int], *, offline: bool) -> bool:
        return True

    return bug


@mutant(controller, "registered_already")
def session_reuse_after_restart(_: Any) -> Any:
    """A broker's new process goes on in the registration of the one before: it stays in its ISRs,
    whatever its disk is.
    """

    def bug(command: Any, known: Any) -> bool:
        return known is not None

    return bug


@mutant(controller, "shutdown_before")
def eligible_after_an_unclean_shutdown(_: Any) -> Any:
    """A broker that has lost what it did not flush is taken for one that was shut down in order: it
    stays eligible, and leads.
    """
    return lambda command, known: Shutdown.CLEAN


@mutant(partitions, "with_elr")
def shrink_forgets_the_eligible(with_elr: Any) -> Any:
    """A replica that leaves an ISR of fewer than min.insync.replicas is not eligible: only the last
    member is, and what that has lost is lost.
    """

    def bug(before: PartitionImage, *rest: Any) -> Any:
        return with_elr(before._replace(isr=()) if before.leader != NO_LEADER else before, *rest)

    return bug


@mutant(partitions, "with_elr")
def eligible_beside_a_large_isr(with_elr: Any) -> Any:
    """The ISR is as large as min.insync.replicas again and goes on; who is outside stays eligible
    without what it commits.
    """

    def bug(before: PartitionImage, *rest: Any) -> Any:
        now: PartitionImage = with_elr(before, *rest)
        left = [each for each in before.elr if each in now.replicas and each not in now.isr]
        return now if now.elr or not now.isr else now._replace(elr=tuple(left))

    return bug


@part_of(eligible_beside_a_large_isr, LeaderState, "_adopt")
def leader_does_not_know_them(adopt: Any) -> Any:
    """Else the leader would wait."""
    return lambda self, isr, partition_epoch, elr: adopt(self, isr, partition_epoch, ())


@mutant(assignment, "place", "quorum struck")
def replicas_share_a_host(place: Any) -> Any:
    """Racks are not looked at: two replicas of a partition are on one host, and go with it."""

    def bug(
        partitions: int, replication_factor: int, brokers: Any, random: Any, fenced: Any = ()
    ) -> Any:
        without = [[(broker_id, None) for broker_id, _ in each] for each in (brokers, fenced)]
        return place(partitions, replication_factor, without[0], random, without[1])

    return bug


@mutant(assignment, "_of_missing_racks", "quorum struck")
def host_that_restarts_is_forgotten(_: Any) -> Any:
    """While a host is started anew, new partitions have two replicas on another one, and keep them
    there.
    """

    def bug(image: MetadataImage, usable: Any, factor: int) -> Any:
        return []

    return bug
