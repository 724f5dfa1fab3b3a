"""systemd's notification protocol, from a child to who started it."""

from raftka.cluster.notices import VARIABLE, Notices, tell


def test_what_is_told_arrives_in_order() -> None:
    notices = Notices()
    try:
        tell("READY=1", {VARIABLE: notices.address})
        tell("STOPPING=1", {VARIABLE: notices.address})

        assert [notices.take(), notices.take(), notices.take()] == ["READY=1", "STOPPING=1", ""]
    finally:
        notices.close()


def test_nobody_asked_or_nobody_listens_any_more() -> None:
    notices = Notices()
    notices.close()

    tell("READY=1", {})
    tell("READY=1", {VARIABLE: notices.address})
