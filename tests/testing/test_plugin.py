"""The fixtures in other people's test runs: the examples of docs/testing.md, workers,
configuration, what a run leaves behind.
"""

import re
from pathlib import Path

import pytest

pytest_plugins = ["pytester"]
EXAMPLES = re.findall(
    r"```python\n(.*?)```",
    (Path(__file__).parents[2] / "docs" / "testing.md").read_text(),
    re.DOTALL,
)


@pytest.fixture
def project(pytester: pytest.Pytester) -> pytest.Pytester:
    """Its runs are processes of their own, with the plugin that the installed package has
    announced.
    """
    pytester.makeini("[pytest]\naddopts = -p no:randomly -p no:cacheprovider")
    return pytester


def test_the_examples_of_the_documentation(project: pytest.Pytester) -> None:
    for number, example in enumerate(EXAMPLES):
        (project.path / f"test_example_{number}.py").write_text(example)

    result = project.runpytest_subprocess()

    result.assert_outcomes(passed=len(EXAMPLES) + 1)  # one of them has two cases


def test_each_worker_of_xdist_has_a_cluster(project: pytest.Pytester) -> None:
    project.makepyfile("""
        import pytest

        @pytest.mark.parametrize("n", range(4))
        def test_ports(raftka_cluster, raftka_topic, n, worker_id, tmp_path_factory):
            ports = tmp_path_factory.getbasetemp().parent / worker_id
            ports.write_text(raftka_cluster.bootstrap_servers)
            assert raftka_topic.startswith("test_ports")
    """)

    result = project.runpytest_subprocess("-n2", "--basetemp", str(project.path / "base"))

    result.assert_outcomes(passed=4)
    assert len({(project.path / "base" / worker).read_text() for worker in ("gw0", "gw1")}) == 2


def test_nodes_and_settings_are_configured(project: pytest.Pytester) -> None:
    project.makeini(
        "[pytest]\nraftka_nodes = 3\nraftka_settings =\n    num.partitions=7\n    "
        "log.retention.hours = 1"
    )
    project.makepyfile("""
        def test_it(raftka_cluster):
            assert raftka_cluster.nodes == [1, 2, 3]
            topic = raftka_cluster.create_topic(partitions=-1)
            assert raftka_cluster.records(topic, partition=6) == []
    """)

    result = project.runpytest_subprocess()

    result.assert_outcomes(passed=1)
    assert project.runpytest_subprocess("--raftka-nodes", "1").ret == pytest.ExitCode.TESTS_FAILED


def test_every_test_finds_it_healed(project: pytest.Pytester) -> None:
    project.makepyfile("""
        def test_one_breaks_it(raftka_cluster):
            raftka_cluster.fail_next("Metadata", "UNKNOWN_SERVER_ERROR", times=100)
            raftka_cluster.pause(2)
            raftka_cluster.kill(1)
            assert raftka_cluster.alive == [2, 3]

        def test_the_next_does_not_notice(raftka_cluster, raftka_topic):
            assert raftka_cluster.alive == [1, 2, 3]
            assert raftka_cluster.records(raftka_topic) == []
    """)

    project.runpytest_subprocess("--raftka-nodes", "3").assert_outcomes(passed=2)


def test_a_run_that_does_not_use_it_does_not_pay_for_it(project: pytest.Pytester) -> None:
    project.makepyfile("""
        import sys

        def test_it():
            assert "raftka.testing.plugin" in sys.modules
            assert not {"trio", "raftka.broker.node"} & set(sys.modules)
    """)

    project.runpytest_subprocess("-p", "no:trio", "-p", "no:anyio").assert_outcomes(passed=1)


def test_asyncio_tests_may_use_it(project: pytest.Pytester) -> None:
    project.makepyfile("""
        import asyncio
        import unittest

        import pytest

        class TestIt(unittest.IsolatedAsyncioTestCase):
            @pytest.fixture(autouse=True)
            def fixtures(self, raftka_cluster, raftka_topic):
                self.cluster, self.topic = raftka_cluster, raftka_topic

            async def test_it(self):
                host, _, port = self.cluster.bootstrap_servers.rpartition(":")
                reader, writer = await asyncio.open_connection(host, int(port))
                writer.write(bytes.fromhex("0000000a 0012 0000 00000001 ffff"))
                assert int.from_bytes(await reader.readexactly(4), "big") > 0
                writer.close()
                assert await asyncio.to_thread(self.cluster.records, self.topic) == []
    """)

    project.runpytest_subprocess().assert_outcomes(passed=1)


def test_trio_tests_may_use_it(project: pytest.Pytester) -> None:
    project.makepyfile("""
        import trio

        async def test_it(raftka_cluster, raftka_topic):
            host, _, port = raftka_cluster.bootstrap_servers.rpartition(":")
            async with await trio.open_tcp_stream(host, int(port)) as stream:
                await stream.send_all(bytes.fromhex("0000000a 0012 0000 00000001 ffff"))
                assert int.from_bytes(await stream.receive_some(4)) > 0
            assert await trio.to_thread.run_sync(raftka_cluster.records, raftka_topic) == []
    """)

    project.runpytest_subprocess("-o", "trio_mode=true").assert_outcomes(passed=1)
