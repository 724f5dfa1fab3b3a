"""Directed simulations of delayed delivery: see directed.py."""

from tests.broker import test_delayed_delivery as of_brokers
from tests.broker.stage import Stage
from tests.log import test_delivery as of_logs
from tests.mutants.directed import finds


def one() -> Stage:
    stage = Stage(log_retention_check_interval_ms="1000")
    stage.create("t", configs=of_brokers.DELAYED)
    return stage


def three() -> Stage:
    stage = Stage(3)
    stage.create("t", replication_factor=3, configs=of_brokers.DELAYED)
    return stage


@finds
def pending_records_are_not_rebuilt() -> None:
    """The leader dies while some records wait."""
    with three() as stage:
        of_brokers.test_the_next_leader_delivers_what_is_pending_and_nothing_else(stage)


@finds
def a_new_leader_delivers_again() -> None:
    """The leader dies when some records are delivered."""
    with three() as stage:
        of_brokers.test_the_next_leader_delivers_what_is_pending_and_nothing_else(stage)


@finds
def held_records_are_shown() -> None:
    """A consumer reads behind and before held batches."""
    of_logs.test_held_batches_are_not_visible()


@finds
def delivered_before_its_time() -> None:
    """A consumer waits for a record."""
    with one() as stage:
        of_brokers.test_a_record_is_hidden_until_its_time_and_then_delivered_once(stage)


@finds
def retention_deletes_pending_records() -> None:
    """A record waits for longer than retention.ms."""
    with one() as stage:
        of_brokers.test_retention_keeps_pending_records(stage)


@finds
def a_new_leader_begins_at_the_last_delivery() -> None:
    """A record waits while others come and go; the leader dies."""
    with three() as stage:
        of_brokers.test_the_next_leader_delivers_what_is_pending_and_nothing_else(stage)


@finds
def delivered_with_too_few_replicas() -> None:
    """A record is due while a follower is away."""
    with three() as stage:
        of_brokers.test_too_few_replicas_deliver_nothing(stage)


@finds
def ranges_outlive_a_truncation() -> None:
    """A log with held batches is cut, and goes on with others."""
    of_logs.test_a_cut_delivery_makes_its_records_pending_again()


@finds
def clients_may_hold_batches() -> None:
    """A client sets the attribute bits itself."""
    with one() as stage:
        of_brokers.test_no_client_can_hold_or_deliver_by_attributes(stage)
