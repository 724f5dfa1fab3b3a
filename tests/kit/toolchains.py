"""Other people's clients as programs: where they come from, where they are kept. Knows no test, and
nothing of what they talk to.

A test run fetches nothing: what is not kept yet is Missing, with the reason. `./run test
--all-clients` fetches it, with the registries' own programs (apt-get, pip, mvn, go, cargo, npm)
into a folder of the user's cache; nobody needs to be root, and nothing is installed anywhere else.
"""

import hashlib
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import mkdtemp

from bench.load import BenchFailed
from bench.systems import KAFKA_JARS, fetch_jars

CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "raftka-clients"
HERE = Path(__file__).parents[1] / "clients"
FRANZ_GO = "github.com/twmb/franz-go/pkg/kgo"
SCHEMATHESIS = "4.32.5"
KAFKAJS = "2.2.4"
KAFKAJS_REGISTRY = "4.1.0"
PLATFORMATIC = "1.35.0"  # the last for Node 20
QUIX_STREAMS = "3.28.1"
FAUST = "0.15.3"
CURATOR = "5.7.1"
ZOOKEEPER_NODE = "1.1.3"
AXE = "4.14.1"
TYPESCRIPT = "5.9.3"
KAFKA = "4.4.0"  # of kafka_apps/pom.xml
KAFKA_CONNECT = "4.3.1"  # of kafka_connect/pom.xml and kafka_mirror/pom.xml
DEBEZIUM = "3.7.0"  # of debezium/pom.xml
KAFKA_OF_ZOOKEEPER = "2.8.2"  # the last that has --zookeeper in all of its tools
CONFLUENT_AVRO = "7.9.5"  # Maven Central has it only in this jar, with Kafka's clients beside it
CONFLUENT_AVRO_JAR = "org.apache.pinot:pinot-confluent-avro:1.5.0:jar:shaded"
SPARK_KAFKA = "4.2.0"  # the newest that Maven Central has whole; runs on PySpark 4.3
LIBRDKAFKA = "2.0.2"  # Debian 12's
JAVA = 17
# of confluent-kafka, where Debian 12 is not: the oldest for Python 3.11, 3.12 and 3.13
WHEELS = ("2.0.2", "2.3.0", "2.6.1")
FETCH_S = 600


class Missing(Exception):
    """There is no such client here; the text says why."""


@dataclass(frozen=True)
class Program:
    command: list[str]
    env: dict[str, str] = field(default_factory=lambda: dict(os.environ))


class Toolchains:
    def __init__(self, fetch: bool) -> None:
        self._fetch = fetch

    def kcat(self) -> Program:
        """Debian 12's has Debian's librdkafka below it."""
        if shutil.which("kcat"):
            return Program(["kcat"])
        root = self._kept("kcat", lambda folder: _debian(folder, "kcat", "librdkafka1", "libyajl2"))
        program = Program(
            [str(root / "usr/bin/kcat")], {**os.environ, "LD_LIBRARY_PATH": _libraries(root)}
        )
        _does_run([*program.command, "-V"], program.env)
        return program

    def old_confluent_kafka(self) -> Program:
        """A Python with confluent-kafka on an old librdkafka: Debian 12's own, else the oldest
        wheel that this Python takes.
        """
        try:
            program = self._debians_confluent_kafka()
        except Missing:
            packages = self._kept(f"old-confluent-kafka-{_python_version()}", _oldest_wheel)
            program = Program([sys.executable], {**os.environ, "PYTHONPATH": str(packages)})
        _does_run([*program.command, "-c", "import confluent_kafka"], program.env)
        return program

    def schemathesis(self) -> Program:
        """It has a jsonschema-rs of its own, older than the registry's: so it stays outside."""
        name = f"schemathesis-{SCHEMATHESIS}-{_python_version()}"
        packages = self._kept(name, _schemathesis)
        program = Program(
            [sys.executable, str(packages / "bin/st")],
            {**os.environ, "PYTHONPATH": str(packages)},
        )
        _does_run([*program.command, "--version"], program.env)
        return program

    def java_tools(self) -> Program:
        """A JVM in which Kafka's tools run one after the other (JavaTools.java)."""
        return self._of_java("JavaTools.java")

    def java_transactions(self) -> Program:
        """Loops of transactions of Java's producer (JavaTransactions.java)."""
        return self._of_java("JavaTransactions.java")

    def java_share(self) -> Program:
        """Java's share consumer (JavaShare.java)."""
        return self._of_java("JavaShare.java")

    def java(self) -> Program:
        """Java's producer and consumer (JavaClient.java)."""
        return self._of_java("JavaClient.java")

    def _of_java(self, source: str) -> Program:
        java, *options = self._java_17()
        return Program(
            [
                java,
                "-XX:TieredStopAtLevel=1",
                *options,
                "-cp",
                f"{KAFKA_JARS}/*",
                str(HERE / source),
            ]
        )

    def kafka_apps(self) -> Program:
        """A JVM with Kafka Streams: a source file and arguments come behind."""
        java, *options = self._java_17()
        jars = self._kept(f"kafka-apps-{KAFKA}", lambda folder: _maven("kafka_apps", folder))
        return Program([java, *options, "-cp", f"{jars}/*:{KAFKA_JARS}/*"])

    def mirror_maker(self) -> Program:
        """Kafka's MirrorMaker: a properties file comes behind."""
        java, *options = self._java_17()
        jars = self._kept(
            f"kafka-mirror-{KAFKA_CONNECT}-alone", lambda folder: _maven("kafka_mirror", folder)
        )
        main = "org.apache.kafka.connect.mirror.MirrorMaker"
        return Program([java, *options, "-cp", f"{jars}/*", main])

    def kafka_connect(self) -> Program:
        """A JVM with Kafka Connect and its file connectors: a class and arguments come behind."""
        java, *options = self._java_17()
        jars = self._kept(
            f"kafka-connect-{KAFKA_CONNECT}", lambda folder: _maven("kafka_connect", folder)
        )
        return Program([java, *options, "-cp", f"{jars}/*"])

    def debezium(self) -> Program:
        """The same with Debezium's connector for PostgreSQL."""
        connect = self.kafka_connect()
        jars = self._kept(f"debezium-{DEBEZIUM}", lambda folder: _maven("debezium", folder))
        *java, jars_of_connect = connect.command
        return Program([*java, f"{jars_of_connect}:{jars}/*"])

    def _java_17(self) -> list[str]:
        """Java and its options, for the jars of Kafka that `./run bench` fetches too."""
        java = _program("java")
        version = re.search(r"\d+", _does_run([java, "--version"]))
        if version is None or int(version[0]) < JAVA:
            raise Missing(f"Kafka's tools need java {JAVA} or newer")
        if not KAFKA_JARS.is_dir():
            self._may_fetch(KAFKA_JARS)
            _program("mvn")
            try:
                fetch_jars()
            except BenchFailed as failed:
                raise Missing(str(failed)) from None
        return [
            java,
            "-XX:+UseSerialGC",
            "-Xmx256m",
            f"-Dlog4j2.configurationFile={HERE}/log4j2.properties",
        ]

    def kafka_2_8(self) -> Program:
        """Kafka of ZooKeeper's time: a class of its broker or tools, and arguments, come behind."""
        java = _program("java")
        _does_run([java, "-version"])
        jars = self._kept(f"kafka-{KAFKA_OF_ZOOKEEPER}", lambda folder: _maven("kafka_2_8", folder))
        options = [
            "-XX:+UseSerialGC",
            "-XX:TieredStopAtLevel=1",
            "-Xmx256m",
            "-Dorg.slf4j.simpleLogger.defaultLogLevel=error",
        ]
        return Program([java, *options, "-cp", f"{jars}/*"])

    def confluent_avro(self) -> Program:
        """Confluent's Avro serializers for Java (RegistryClient.java)."""
        java = _program("java")
        _does_run([java, "-version"])
        jars = self._kept(
            f"confluent-avro-{CONFLUENT_AVRO}",
            lambda folder: _maven_jar(CONFLUENT_AVRO_JAR, folder),
        )
        options = [
            "-XX:+UseSerialGC",
            "-XX:TieredStopAtLevel=1",
            "-Xmx256m",
            "-Dorg.slf4j.simpleLogger.defaultLogLevel=error",
        ]
        return Program([java, *options, "-cp", f"{jars}/*", str(HERE / "RegistryClient.java")])

    def spark_kafka(self) -> list[Path]:
        """The jars of Spark's own Kafka source and sink."""
        return sorted(
            self._kept(
                f"spark-kafka-{SPARK_KAFKA}", lambda folder: _maven("spark_kafka", folder)
            ).glob("*.jar")
        )

    def curator(self) -> Program:
        java = _program("java")
        _does_run([java, "-version"])
        jars = self._kept(f"curator-{CURATOR}", lambda folder: _maven("curator", folder))
        options = [
            "-XX:+UseSerialGC",
            "-XX:TieredStopAtLevel=1",
            "-Xmx256m",
            "-Dorg.slf4j.simpleLogger.defaultLogLevel=error",
        ]
        return Program([java, *options, "-cp", f"{jars}/*", str(HERE / "CuratorClient.java")])

    def zookeeper_go(self) -> Program:
        return self._built("zookeeper_go")

    def zookeeper_node(self) -> Program:
        node, package = _program("node"), f"node-zookeeper-client@{ZOOKEEPER_NODE}"
        modules = self._kept(package, lambda folder: _npm_install(folder, package)) / "node_modules"
        return Program(
            [node, str(HERE / "zookeeper_node.cjs")], {**os.environ, "NODE_PATH": str(modules)}
        )

    def axe(self) -> Path:
        """Return the script of axe-core, which finds what keeps people from using a page."""
        package = f"axe-core@{AXE}"
        root = self._kept(package, lambda folder: _npm_install(folder, package))
        return root / "node_modules" / "axe-core" / "axe.min.js"

    def typescript(self) -> Program:
        """The compiler, which checks the types that comments of JavaScript give."""
        node, package = _program("node"), f"typescript@{TYPESCRIPT}"
        root = self._kept(package, lambda folder: _npm_install(folder, package))
        return Program([node, str(root / "node_modules" / "typescript" / "bin" / "tsc")])

    def franz_go(self) -> Program:
        return self._built("franz_go")

    def kafka_go(self) -> Program:
        return self._built("kafka_go")

    def sarama(self) -> Program:
        return self._built("sarama")

    def old_sarama(self) -> Program:
        """1.45.0, which writes a largest timestamp of -1 into each batch."""
        return self.built(HERE / "sarama", "old-sarama", "old.mod")

    def franz_go_tests(self) -> Program:
        """The tests of its package kgo, as a program."""
        sources = HERE / "franz_go"
        version = hashlib.sha256((sources / "go.sum").read_bytes()).hexdigest()[:12]
        return Program(
            [
                str(
                    self._kept(
                        f"franz-go-tests-{version}",
                        lambda folder: _go_build_tests(sources, FRANZ_GO, folder),
                    )
                    / "tests"
                )
            ]
        )

    def _built(self, name: str) -> Program:
        return self.built(HERE / name, name.replace("_", "-"))

    def built(self, sources: Path, name: str, modules: str = "go.mod") -> Program:
        """A Go program, from its folder; what is kept is named by its source. `modules`: the file
        with the versions of what it needs.
        """
        content = b"".join(path.read_bytes() for path in sorted(sources.iterdir()))
        kept = f"{name}-{hashlib.sha256(content).hexdigest()[:12]}"
        return Program(
            [str(self._kept(kept, lambda folder: _go_build(sources, folder, modules)) / "client")]
        )

    def kafkajs(self) -> Program:
        node = _program("node")
        modules = (
            self._kept(
                f"kafkajs-{KAFKAJS}", lambda folder: _npm_install(folder, f"kafkajs@{KAFKAJS}")
            )
            / "node_modules"
        )
        return Program(
            [node, str(HERE / "kafkajs.cjs")],
            {**os.environ, "NODE_PATH": str(modules), "KAFKAJS_NO_PARTITIONER_WARNING": "1"},
        )

    def platformatic(self) -> Program:
        """@platformatic/kafka, whose consumers speak the new protocol of groups."""
        node, package = _program("node"), f"@platformatic/kafka@{PLATFORMATIC}"
        modules = (
            self._kept(f"platformatic-{PLATFORMATIC}", lambda folder: _npm_install(folder, package))
            / "node_modules"
        )
        return Program(
            [node, str(HERE / "platformatic.cjs")], {**os.environ, "NODE_PATH": str(modules)}
        )

    def platformatic_roundtrip(self) -> Program:
        """The same package with the verbs of test_more_clients.py."""
        node, script = self.platformatic().command
        return Program(
            [node, str(Path(script).with_name("platformatic_roundtrip.cjs"))],
            self.platformatic().env,
        )

    def krafka(self) -> Program:
        """A client in Rust alone."""
        return self._in_rust("krafka")

    def rskafka(self) -> Program:
        """A small client in Rust alone, without groups and transactions."""
        return self._in_rust("rskafka")

    def _in_rust(self, name: str) -> Program:
        sources = HERE / name
        content = b"".join(
            path.read_bytes() for path in sorted(sources.rglob("*")) if path.is_file()
        )
        kept = f"{name}-{hashlib.sha256(content).hexdigest()[:12]}"
        return Program(
            [str(self._kept(kept, lambda folder: _cargo_install(sources, folder)) / "bin/client")]
        )

    def quix_copy(self) -> Program:
        """A stream application of Quix Streams."""
        return self._in_python("quixstreams", QUIX_STREAMS, "quix_copy.py")

    def faust_copy(self) -> Program:
        """A stream application of Faust, as its community goes on with it."""
        return self._in_python("faust-streaming", FAUST, "faust_copy.py")

    def _in_python(self, package: str, version: str, script: str) -> Program:
        packages = self._kept(
            f"{package}-{version}-{_python_version()}",
            lambda folder: _do(
                [*_pip_install(), "--target", str(folder), f"{package}=={version}"], folder
            ),
        )
        env = {**os.environ, "PYTHONPATH": str(packages)}
        return Program([sys.executable, str(HERE / script)], env)

    def kafkajs_registry(self) -> Program:
        """KafkaJS's client of a schema registry."""
        node, package = _program("node"), f"@kafkajs/confluent-schema-registry@{KAFKAJS_REGISTRY}"
        modules = (
            self._kept(
                f"kafkajs-registry-{KAFKAJS_REGISTRY}", lambda folder: _npm_install(folder, package)
            )
            / "node_modules"
        )
        return Program(
            [node, str(HERE / "registry.cjs")], {**os.environ, "NODE_PATH": str(modules)}
        )

    def _debians_confluent_kafka(self) -> Program:
        root = self._kept(
            "debian-confluent-kafka",
            lambda folder: _debian(folder, "python3-confluent-kafka", "librdkafka1"),
        )
        env = {
            **os.environ,
            "LD_LIBRARY_PATH": _libraries(root),
            "PYTHONPATH": str(root / "usr/lib/python3/dist-packages"),
        }
        found = _does_run(
            [
                sys.executable,
                "-c",
                "import confluent_kafka; print(confluent_kafka.libversion()[0])",
            ],
            env,
        ).strip()
        if found != LIBRDKAFKA:
            raise Missing(f"this Debian's librdkafka is {found}")
        return Program([sys.executable], env)

    def _kept(self, name: str, fetch: Callable[[Path], None]) -> Path:
        """The folder of that name; it is whole or not there."""
        folder = CACHE / name
        if not folder.is_dir():
            self._may_fetch(folder)
            CACHE.mkdir(parents=True, exist_ok=True)
            part = Path(mkdtemp(prefix=f"{name}.", dir=CACHE))
            try:
                fetch(part)
                part.rename(folder)
            finally:
                shutil.rmtree(part, ignore_errors=True)
        return folder

    def _may_fetch(self, folder: Path) -> None:
        if not self._fetch:
            raise Missing(f"{folder} is not there; ./run test --all-clients fetches it")


def _debian(folder: Path, *packages: str) -> None:
    """Package lists of its own: those of the system may be old or none, and are root's."""
    apt = folder / "apt"
    for part in ("state/lists/partial", "cache/archives/partial"):
        (apt / part).mkdir(parents=True)
    get = [
        _program("apt-get"),
        "-q",
        "-o",
        f"Dir::State={apt}/state",
        "-o",
        f"Dir::Cache={apt}/cache",
        "-o",
        "APT::Sandbox::User=root",
    ]
    _do([*get, "update"], apt)
    _do([*get, "download", *packages], apt)
    for package in apt.glob("*.deb"):
        _do([_program("dpkg-deb"), "-x", str(package), str(folder)], folder)
    shutil.rmtree(apt)


def _pip_install() -> list[str]:
    """Wheels alone: nothing of a package is run."""
    pip = [_program("python3"), "-m", "pip", "--python", sys.executable, "install", "--quiet"]
    return [*pip, "--only-binary", ":all:"]


def _schemathesis(folder: Path) -> None:
    _do([*_pip_install(), "--target", str(folder), f"schemathesis=={SCHEMATHESIS}"], folder)


def _oldest_wheel(folder: Path) -> None:
    pip = [*_pip_install(), "--no-deps"]
    for wheel in WHEELS:
        try:
            return _do([*pip, "--target", str(folder), f"confluent-kafka=={wheel}"], folder)
        except Missing as missing:
            reason = missing
    raise reason


def _go_build(sources: Path, folder: Path, modules: str) -> None:
    go = _program("go", "/usr/local/go/bin")
    env = {**os.environ, "GOTOOLCHAIN": "local", "GOFLAGS": "-buildvcs=false"}
    _do([go, "mod", "download", f"-modfile={modules}"], sources, env)
    subprocess.run(
        [go, "build", f"-modfile={modules}", "-o", folder / "client", "."],
        cwd=sources,
        env=env,
        check=True,
    )  # that it is wrong is no reason to skip


def _go_build_tests(sources: Path, package: str, folder: Path) -> None:
    """Of a package of a module that the program in `sources` needs."""
    go, env = _program("go", "/usr/local/go/bin"), {**os.environ, "GOTOOLCHAIN": "local"}
    _do([go, "mod", "download"], sources, env)
    _do([go, "test", "-c", "-o", str(folder / "tests"), package], sources, env)


def _cargo_install(sources: Path, folder: Path) -> None:
    cargo, target = _program("cargo", str(Path.home() / ".cargo/bin")), folder / "target"
    _do([cargo, "fetch", "--locked"], sources)
    subprocess.run(
        [
            *(cargo, "install", "--quiet", "--locked", "--path", sources),
            *("--root", folder, "--target-dir", target),
        ],
        check=True,
    )
    shutil.rmtree(target)


def _maven(project: str, folder: Path) -> None:
    pom = HERE / project / "pom.xml"
    _do(
        [
            _program("mvn"),
            "-q",
            "-B",
            "-f",
            str(pom),
            "dependency:copy-dependencies",
            f"-DoutputDirectory={folder}",
        ],
        folder,
    )


def _maven_jar(artifact: str, folder: Path) -> None:
    """Without the artifacts that it depends on."""
    _do(
        [
            _program("mvn"),
            "-q",
            "-B",
            "dependency:copy",
            f"-Dartifact={artifact}",
            f"-DoutputDirectory={folder}",
        ],
        folder,
    )


def _npm_install(folder: Path, package: str) -> None:
    _do(
        [
            _program("npm"),
            "install",
            "--no-audit",
            "--no-fund",
            "--ignore-scripts",
            "--prefix",
            str(folder),
            package,
        ],
        folder,
    )


def _program(name: str, *also_in: str) -> str:
    found = shutil.which(name, path=os.pathsep.join([os.environ.get("PATH", os.defpath), *also_in]))
    if found is None:
        raise Missing(f"there is no {name}")
    return found


def _do(command: list[str], folder: Path, env: dict[str, str] | None = None) -> None:
    try:
        done = subprocess.run(
            command,
            cwd=folder,
            env=env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=FETCH_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise Missing(f"{Path(command[0]).name} did not end in {FETCH_S} s") from None
    if done.returncode:
        raise Missing(
            f"{Path(command[0]).name} failed: {(done.stderr or done.stdout).strip()[-300:]}"
        )


def _does_run(command: list[str], env: dict[str, str] | None = None) -> str:
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    if done.returncode:
        raise Missing(f"{command[0]} does not run here: {done.stderr.strip()[-300:]}")
    return done.stdout


def _libraries(root: Path) -> str:
    return str(next(root.glob("usr/lib/*/librdkafka.so.1")).parent)


def _python_version() -> str:
    return ".".join(map(str, sys.version_info[:2]))
