"""Jars of Apache Kafka, which Maven fetches."""

import shutil
import subprocess
from pathlib import Path

import pytest

KAFKA = "4.4.0"
JARS = Path.home() / ".cache" / "raftka-tests" / f"kafka-tools-{KAFKA}"
POM = f"""<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>
<groupId>raftka</groupId><artifactId>tests</artifactId><version>1</version>
<dependencies><dependency>
<groupId>org.apache.kafka</groupId><artifactId>kafka-tools</artifactId><version>{KAFKA}</version>
</dependency></dependencies>
</project>"""
pytestmark = pytest.mark.skipif(
    not (shutil.which("java") and shutil.which("mvn")),
    reason="DumpLogSegments needs java and mvn, and not both are here",
)


@pytest.fixture(scope="module")
def classpath(tmp_path_factory: pytest.TempPathFactory) -> str:
    if not JARS.is_dir():
        pom = tmp_path_factory.mktemp("pom") / "pom.xml"
        pom.write_text(POM)
        fresh = JARS.with_name(JARS.name + ".new")
        shutil.rmtree(fresh, ignore_errors=True)
        command = [
            "mvn",
            "-q",
            "-B",
            "-f",
            str(pom),
            "dependency:copy-dependencies",
            f"-DoutputDirectory={fresh}",
        ]
        result = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
        if result.returncode:
            pytest.skip(f"Maven cannot get Kafka's jars: {result.stdout[-300:]}")
        fresh.rename(JARS)
    return f"{JARS}/*"
