"""systemd's notification protocol, from a child to who started it."""

from raftka.cluster.notices import VARIABLE, Notices, notify


def test_notices_arrive_in_order() -> None:
    notices = Notices()
    try:
        notify("READY=1", {VARIABLE: notices.address})
        notify("STOPPING=1", {VARIABLE: notices.address})

        assert [notices.take(), notices.take(), notices.take()] == ["READY=1", "STOPPING=1", ""]
    finally:
        notices.close()


def test_a_notice_without_a_listener_is_dropped() -> None:
    notices = Notices()
    notices.close()

    notify("READY=1", {})
    notify("READY=1", {VARIABLE: notices.address})
