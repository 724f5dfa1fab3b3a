"""`raftka host start` from outside: its brokers, its pages, its log, how it ends."""

import json
import os
import select
import signal
import socket
import time
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest
from prometheus_client.parser import text_string_to_metric_families

from raftka.cluster.ask import ask, call
from raftka.cluster.host.start import start_host
from raftka.cluster.processes import parent_of
from raftka.wire.messages.scram import DESCRIBE_USER_SCRAM_CREDENTIALS

PATIENCE_SECONDS = 60.0


def page(host: Any, path: str, **headers: str) -> str:
    with urlopen(
        Request(f"http://127.0.0.1:{host.page_port}{path}", headers=headers), timeout=30
    ) as answer:
        return str(answer.read().decode())


def numbers(host: Any, name: str) -> dict[str, float]:
    """By broker."""
    families = text_string_to_metric_families(page(host, "/metrics"))
    return {
        each.labels["broker"]: each.value
        for family in families
        for each in family.samples
        if each.name == name
    }


def gone(pidfds: list[int]) -> bool:
    """All these processes end."""
    for pidfd in pidfds:
        poll = select.poll()
        poll.register(pidfd, select.POLLIN)
        if not poll.poll(PATIENCE_SECONDS * 1000):
            return False
    return True


def test_a_host_from_start_to_sigterm(host: Any) -> None:
    process = host.start()
    host.until_ready()

    assert host.notices.take() == "READY=1"
    assert set(ask(("127.0.0.1", host.port + 1)).brokers) == {10, 11}
    assert len({parent_of(host.pid_of(each)) for each in host.ids}) == 1, "one process forks all"
    assert numbers(host, "kafka_server_kafkaserver_brokerstate") == {"10": 3.0, "11": 3.0}
    assert numbers(host, "raftka_host_broker_up") == {"10": 1.0, "11": 1.0}
    assert set(numbers(host, "process_cpu_seconds_total")) == {"10", "11", "host"}
    health = json.loads(page(host, "/health"))
    assert (health["status"], set(health["brokers"])) == ("ok", {"10", "11"})

    process.send_signal(signal.SIGTERM)

    assert process.wait(PATIENCE_SECONDS) == 0
    assert host.notices.take() == "STOPPING=1"
    lines = [json.loads(line) for line in host.log.splitlines()]
    assert all("node" in line or "host" in line for line in lines)
    assert [line.get("node") for line in lines if line["event"] == "stopped"] == [11, 10], (
        "the voter last"
    )
    assert not list(host.folder.glob("*.pid"))


def test_sigterm_to_all_processes_at_once_is_a_controlled_shutdown_too(host: Any) -> None:
    """As systemd does it unless the unit has KillMode=mixed."""
    process = host.start()
    host.until_ready()
    pids = [host.pid_of(each) for each in host.ids]

    for pid in (*pids, parent_of(pids[0]), process.pid):
        os.kill(pid, signal.SIGTERM)

    assert process.wait(PATIENCE_SECONDS) == 0, host.log
    events = [json.loads(line) for line in host.log.splitlines()]
    assert {line["node"] for line in events if line["event"] == "stopped"} == {10, 11}


def test_a_broker_that_is_killed_comes_back(host: Any) -> None:
    host.start()
    host.until_ready()
    first = host.pid_of(11)
    os.kill(first, signal.SIGKILL)

    deadline = time.monotonic() + PATIENCE_SECONDS
    while (
        numbers(host, "raftka_host_broker_restarts_total") != {"10": 0.0, "11": 1.0}
        or json.loads(health_of(host))["status"] != "ok"
    ):
        assert time.monotonic() < deadline
    assert host.pid_of(11) != first
    assert "died of SIGKILL" in host.log


def health_of(host: Any) -> str:
    try:
        return page(host, "/health")
    except HTTPError as error:
        with error:
            return error.read().decode()


def test_brokers_end_with_a_supervisor_that_is_killed(host: Any) -> None:
    process = host.start()
    host.until_ready()
    pids = [host.pid_of(each) for each in host.ids]
    pidfds = [os.pidfd_open(pid) for pid in (*pids, parent_of(pids[0]))]

    process.kill()

    assert gone(pidfds)
    for pidfd in pidfds:
        os.close(pidfd)


def test_brokers_inherit_nothing_of_the_supervisor_but_the_log(host: Any) -> None:
    process = host.start()
    host.until_ready()

    assert sockets_of(process.pid)
    for pid in (host.pid_of(10), host.pid_of(11), parent_of(host.pid_of(10))):
        assert not sockets_of(process.pid) & sockets_of(pid)


def sockets_of(pid: int) -> set[str]:
    links = {os.readlink(path) for path in Path(f"/proc/{pid}/fd").iterdir() if path.is_symlink()}
    return {link for link in links if link.startswith("socket:")}


def test_first_users_are_for_the_first_start_of_the_voter(host: Any) -> None:
    host.start("--add-scram", "SCRAM-SHA-256=[name=ann,password=secret-of-ann]")
    host.until_ready()
    os.kill(host.pid_of(10), signal.SIGKILL)

    request = DESCRIBE_USER_SCRAM_CREDENTIALS.request(users=None)
    deadline = time.monotonic() + PATIENCE_SECONDS
    while (
        numbers(host, "raftka_host_broker_restarts_total")["10"] != 1.0
        or json.loads(health_of(host))["status"] != "ok"
    ):
        assert time.monotonic() < deadline
    answer = call(("127.0.0.1", host.port + 1), DESCRIBE_USER_SCRAM_CREDENTIALS, request)
    assert [each.user for each in answer.results] == ["ann"]
    assert "first_users_not_added" not in host.log


def test_the_page_has_the_logins_of_the_file_and_brokers_pages_are_nobodys(host: Any) -> None:
    host.settings |= {"metrics.auth.bearer.token": "a-token", "metrics.auth.health": "false"}
    host.start()
    host.until_ready()

    with pytest.raises(HTTPError) as refused:
        page(host, "/metrics")
    assert refused.value.code == 401
    refused.value.close()
    assert 'raftka_host_broker_up{broker="11"} 1' in page(
        host, "/metrics", Authorization="Bearer a-token"
    )
    assert json.loads(page(host, "/health")) == {"status": "ok"}, "strangers learn no more"
    started = [json.loads(line) for line in host.log.splitlines()]
    ports = [line["metrics_port"] for line in started if line["event"] == "started"]
    assert len(ports) == 2
    for port in ports:
        with pytest.raises(HTTPError) as closed:
            urlopen(
                Request(
                    f"http://127.0.0.1:{port}/metrics", headers={"Authorization": "Bearer a-token"}
                ),
                timeout=30,
            )
        assert closed.value.code == 401
        closed.value.close()


def test_a_broker_that_cannot_start_ends_the_host_with_its_reason(host: Any) -> None:
    with socket.create_server(("127.0.0.1", host.port + 1)):
        assert host.start().wait(PATIENCE_SECONDS) == 1

    last = host.log.splitlines()[-1]
    assert last == (
        "raftka: broker 11 ended with exit code 1 before it was ready; its last lines in "
        "the log say why"
    )
    assert (
        f"node=11 raftka: node 11: cannot listen on 127.0.0.1:{host.port + 1}: Address already in "
        "use; stop the process" in host.log
    )


def test_a_page_on_a_taken_port_is_told_before_anything_starts(host: Any) -> None:
    with socket.create_server(("127.0.0.1", host.page_port)):
        assert host.start().wait(PATIENCE_SECONDS) == 1

    (line,) = host.log.splitlines()
    assert line.startswith(
        f"raftka: cannot listen on 127.0.0.1:{host.page_port}: Address already in use; stop the "
        "process"
    )
    assert line.endswith("or change `metrics.port`")


@pytest.mark.parametrize(
    ("content", "brokers", "said"),
    [
        (None, 2, "No such file or directory: give the host's properties file"),
        (b"\xff\xfe", 2, "is not text in UTF-8"),
        (b"process.roles=broker\n", 2, "node.id is missing"),
        (
            b"process.roles=broker\nnode.id=1\ncontroller.quorum.voters=5@h:1\n",
            0,
            "--brokers 0: a host has 1 to 64 brokers",
        ),
    ],
)
def test_a_file_that_will_not_do_is_told_in_one_line(
    content: bytes | None,
    brokers: int,
    said: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    file = tmp_path / "server.properties"
    if content is not None:
        file.write_bytes(content)

    assert start_host(str(file), brokers) == 1

    err = capsys.readouterr().err
    assert err.startswith(f"raftka: {file}")
    assert said in err
    assert len(err.splitlines()) == 1
