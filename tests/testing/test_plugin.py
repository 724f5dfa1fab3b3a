"""The fixtures in other people's test runs: the examples of the documentation, workers,
configuration, what a run leaves behind.
"""

import re
from pathlib import Path

import pytest

pytest_plugins = ["pytester"]
DOCS = Path(__file__).parents[2] / "docs"
EXAMPLES = [
    example
    for page in ("testing.md", "testing-clusters.md", "testing-waits.md")
    for example in re.findall(r"```python\n(.*?)```", (DOCS / page).read_text(), re.DOTALL)
]


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


def test_the_assertions_of_an_installed_raftka_are_not_rewritten(project: pytest.Pytester) -> None:
    """pytest marks the packages of a wheel with a plugin so; an editable one it does not know."""
    project.makepyfile(
        as_a_wheel="""
        import pytest

        @pytest.hookimpl(tryfirst=True)
        def pytest_load_initial_conftests(early_config):
            early_config.pluginmanager.rewrite_hook.mark_rewrite("raftka")
        """,
        test_it="""
        import sys

        def test_it(raftka_cluster):
            for name in ("raftka.testing.cluster", "raftka.broker", "raftka.log"):
                assert "Rewriting" not in type(sys.modules[name].__loader__).__name__
        """,
    )

    project.runpytest_subprocess("-p", "as_a_wheel").assert_outcomes(passed=1)


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


def test_the_fixture_for_coroutines_needs_no_plugin_of_ours(project: pytest.Pytester) -> None:
    """It is an ordinary fixture, so it works under whatever runs the coroutines."""
    body = """
            (topic,) = await raftka_async_cluster.create_topics("orders:2")
            assert await raftka_async_cluster.values(topic, str) == []
            with pytest.raises(TimeoutError, match="last: 0"):
                await raftka_async_cluster.wait_for_records(topic, 1, timeout_s=0.01)
            await raftka_async_cluster.delete_topic(topic)
    """
    project.makepyfile(
        test_asyncio=f"""
        import pytest

        @pytest.mark.asyncio
        async def test_it(raftka_async_cluster):{body}
        """,
        test_anyio=f"""
        import pytest

        @pytest.mark.anyio
        @pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"])
        async def test_it(raftka_async_cluster, anyio_backend):{body}
        """,
        test_trio=f"""
        import pytest

        @pytest.mark.trio
        async def test_it(raftka_async_cluster):{body}
        """,
    )

    project.runpytest_subprocess().assert_outcomes(passed=4)


SEES = """
    import pytest
    from kafka import KafkaProducer

    def send(cluster, topic):
        with KafkaProducer(**cluster.client().kafka_python()) as producer:
            producer.send(topic, b"x").get(30)
        assert cluster.values(topic) == [b"x"]
"""


def test_a_mark_chooses_the_kind_of_cluster(project: pytest.Pytester) -> None:
    project.makepyfile(
        SEES
        + """
    def test_plain(raftka_cluster, raftka_topic):
        assert raftka_cluster.nodes == [1]
        send(raftka_cluster, raftka_topic)

    @pytest.mark.raftka(nodes=3, security="sasl_ssl", num_partitions=2)
    def test_three(raftka_cluster):
        assert raftka_cluster.nodes == [1, 2, 3]
        topic = raftka_cluster.create_topic(partitions=-1)
        assert raftka_cluster.records(topic, partition=1) == []
        send(raftka_cluster, topic)

    @pytest.mark.raftka(security="tls")
    class TestTls:
        def test_tls(self, raftka_topic, raftka_cluster):
            assert "ssl_certfile" in raftka_cluster.client().kafka_python()
            send(raftka_cluster, raftka_topic)

        @pytest.mark.raftka(security="sasl")
        def test_sasl(self, raftka_topic, raftka_cluster):
            assert raftka_cluster.client().kafka_python()["security_protocol"] == "SASL_PLAINTEXT"
            send(raftka_cluster, raftka_topic)

    def test_plain_again(raftka_cluster, request):
        assert raftka_cluster.nodes == [1]
        assert request.node.name == "test_plain_again"
    """
    )

    result = project.runpytest_subprocess("-v", "--strict-markers")

    result.assert_outcomes(passed=5)
    result.stdout.fnmatch_lines(["*::test_three PASSED*"])  # a name without a parameter


def test_tests_of_one_kind_share_a_cluster(project: pytest.Pytester) -> None:
    project.makepyfile("""
        import pytest

        seen = {}

        @pytest.mark.raftka(nodes=1, log_retention_hours=1)
        def test_one(raftka_cluster):
            seen["marked"] = raftka_cluster

        def test_two(raftka_cluster):
            seen["shared"] = raftka_cluster
            assert raftka_cluster is not seen["marked"]

        @pytest.mark.raftka(log_retention_hours=1)
        def test_three(raftka_cluster):
            assert raftka_cluster is seen["marked"]
    """)

    project.runpytest_subprocess().assert_outcomes(passed=3)


@pytest.mark.parametrize(
    "options",
    [
        ["--raftka-nodes", "3", "--raftka-security", "sasl"],
        ["--kafka-cluster", "nodes=3,security=sasl,num.partitions=2"],
        ["--kafka-cluster", "nodes=1", "--kafka-cluster", "security=sasl", "--raftka-nodes", "3"],
    ],
)
def test_options_choose_the_kind_of_cluster(project: pytest.Pytester, options: list[str]) -> None:
    project.makepyfile(
        SEES
        + """
    def test_it(raftka_cluster, raftka_topic, raftka_registry):
        assert raftka_cluster.nodes == [1, 2, 3]
        assert raftka_cluster.client().librdkafka()["security.protocol"] == "sasl_plaintext"
        send(raftka_cluster, raftka_topic)
        assert raftka_registry.url.startswith("http://")
    """
    )

    project.runpytest_subprocess(*options).assert_outcomes(passed=1)


@pytest.mark.parametrize(
    ("options", "ini"),
    [
        (["--raftka-api-ceiling", "3.0"], ""),
        (["--kafka-cluster", "api_ceiling=3.0"], ""),
        ([], "raftka_api_ceiling = 3.0"),
    ],
)
def test_a_ceiling_for_clients(project: pytest.Pytester, options: list[str], ini: str) -> None:
    """A mark goes before the options, as with every part of a kind."""
    project.makeini(f"[pytest]\n{ini}\n")
    project.makepyfile("""
        import pytest
        from raftka.wire.messages.api_versions import API_VERSIONS

        def highest_fetch(cluster):
            import socket
            from raftka.wire.frame import decode_response_header, encode_request
            host, port = cluster.bootstrap_servers.split(":")
            with socket.create_connection((host, int(port))) as sock, sock.makefile("rb") as back:
                sock.sendall(encode_request(API_VERSIONS, 0, 1, "test", API_VERSIONS.request()))
                frame = memoryview(back.read(int.from_bytes(back.read(4))))
            _, position = decode_response_header(frame, API_VERSIONS, 0)
            row, _ = API_VERSIONS.decode_response(0, frame, position)
            return {each.api_key: each.max_version for each in row.api_keys}[1]

        def test_it(raftka_cluster):
            assert highest_fetch(raftka_cluster) == 12

        @pytest.mark.raftka(api_ceiling="3.6")
        def test_marked(raftka_cluster):
            assert highest_fetch(raftka_cluster) == 15
    """)

    project.runpytest_subprocess(*options).assert_outcomes(passed=2)


def test_kinds_under_xdist(project: pytest.Pytester) -> None:
    project.makepyfile("""
        import pytest

        def note(cluster, tmp_path_factory, worker_id, kind):
            ports = tmp_path_factory.getbasetemp().parent / f"{worker_id}-{kind}"
            servers = cluster.bootstrap_servers
            assert not ports.exists() or ports.read_text() == servers
            ports.write_text(servers)

        @pytest.mark.parametrize("n", range(4))
        def test_plain(raftka_clean_cluster, tmp_path_factory, worker_id, n):
            note(raftka_clean_cluster, tmp_path_factory, worker_id, "plain")
            assert raftka_clean_cluster.create_topics("same-name") == ["same-name"]

        @pytest.mark.raftka(nodes=3)
        @pytest.mark.parametrize("n", range(4))
        def test_three(raftka_clean_cluster, tmp_path_factory, worker_id, n):
            note(raftka_clean_cluster, tmp_path_factory, worker_id, "three")
            assert raftka_clean_cluster.create_topics("same-name") == ["same-name"]
    """)

    result = project.runpytest_subprocess("-n2", "--basetemp", str(project.path / "base"))

    result.assert_outcomes(passed=8)
    servers = [path.read_text() for path in (project.path / "base").glob("gw?-*")]
    assert len(servers) == len(set(servers)) >= 2


def test_every_test_finds_it_clean(project: pytest.Pytester) -> None:
    project.makepyfile("""
        import pytest

        @pytest.mark.parametrize("n", range(3))
        def test_it(raftka_cluster, raftka_topic, n):
            assert raftka_cluster.create_topics("orders:1") == ["orders"]
    """)

    project.runpytest_subprocess("--raftka-clean").assert_outcomes(passed=3)
    assert project.runpytest_subprocess().ret == pytest.ExitCode.TESTS_FAILED


@pytest.mark.parametrize(
    ("options", "mark", "complaint"),
    [
        (["--kafka-cluster", "nodes"], "", "'nodes' is not name=value"),
        (["--kafka-cluster", "nodes=none"], "", "nodes=none: it is a number above 0"),
        (["--raftka-security", "tsl"], "", "security 'tsl': it is PLAINTEXT, SASL_PLAINTEXT, "),
        (["--raftka-api-ceiling", "1.0"], "", "raftka.api.ceiling"),
        ([], "@pytest.mark.raftka(nodes=0)", "nodes=0: it is a number above 0"),
        ([], "@pytest.mark.raftka(3)", "the mark raftka takes names: nodes=3"),
        ([], "@pytest.mark.raftka(log_retention_huors=1)", "there is no setting log.retention.huo"),
    ],
)
def test_mistakes_are_named(
    project: pytest.Pytester, options: list[str], mark: str, complaint: str
) -> None:
    project.makepyfile(f"""
        import pytest

        {mark}
        def test_it(raftka_cluster):
            pass
    """)

    result = project.runpytest_subprocess(*options)

    assert result.ret != 0
    result.stdout.fnmatch_lines([f"*{complaint.replace('[', '[[]')}*"])
    result.stdout.no_fnmatch_line("*plugin.py*")
    result.stdout.no_fnmatch_line("*Error: *")
    result.stdout.no_fnmatch_line("During handling*")


def test_a_mark_without_effect_is_refused(project: pytest.Pytester) -> None:
    project.makepyfile("""
        import unittest

        import pytest

        @pytest.mark.raftka(nodes=3)
        class TestIt(unittest.TestCase):
            @pytest.fixture(autouse=True)
            def fixtures(self, raftka_cluster):
                self.cluster = raftka_cluster

            def test_it(self):
                pass

        @pytest.mark.raftka(nodes=3)
        def test_it():
            pass

        @pytest.mark.raftka(nodes=3)
        class TestAll:
            def test_it(self):
                pass
    """)

    result = project.runpytest_subprocess()

    result.assert_outcomes(errors=2, passed=1)
    result.stdout.fnmatch_lines(["*the mark raftka needs the fixture raftka_cluster among*"])


def test_windows_is_told_in_one_sentence(project: pytest.Pytester) -> None:
    project.makeconftest("import sys; sys.platform = 'win32'")
    project.makepyfile("""
        def test_cluster(raftka_cluster):
            raise AssertionError

        def test_topic(raftka_topic, raftka_async_cluster):
            raise AssertionError

        def test_else():
            pass
    """)

    result = project.runpytest_subprocess("-rs", "-p", "no:faulthandler")

    result.assert_outcomes(passed=1, skipped=2)
    result.stdout.fnmatch_lines(
        ["SKIPPED * raftka runs on Linux and macOS, not on Windows: install and start it *"]
    )
