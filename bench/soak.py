"""`./run soak [MINUTES]`: half of the time `raftka chaos sim` on all cores, half of it `raftka
chaos live`; and the other long runs. Each ends with the figure that must be 0, and exit code 1 when
it is not.

calm [--minutes 10]     load on all cores: no broker may be fenced, no election may happen
kill-all [--rounds 200] all three are killed by SIGKILL under load and started again: nothing
acknowledged may be lost
pipeline [--kills 5]    the trucks pipeline, its driver and leaders killed so often, then all
                        brokers: the lake is what was acknowledged
sql [--kills 30]        ten queries of an SQL server that is killed: each row is there once
file [--mib 1024]       a file of lines through three processes, two leaders killed: the same lines,
                        in order per key
"""

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path

from bench.load import load
from bench.probe import until_acknowledged
from bench.rows import THREE_NODES
from bench.systems import Raftka
from raftka.cluster import demo
from raftka.cluster.ask import ask_any
from raftka.cluster.tally import Tally
from raftka.cluster.traffic import Reader, Sender

TOPIC, PARTITIONS, PROBE = "soak", 6, "probe"
EVENTS = ("broker_fenced", "controller_active", "isr_change_asked", "broker_process_gone")
PIECE = 25  # seeds a core, between two looks at the clock
LIVE_SECONDS = (0.2, 2.0)  # of all three, between two kills


def calm(minutes: float) -> bool:
    """All cores busy; the metadata quorum and the sessions must not notice."""
    with Raftka(3, THREE_NODES) as system:
        system.start()
        system.wait_ready()
        targets = system.create_topic(TOPIC, PARTITIONS)
        before, epochs = _events(system), _epochs(system)
        ends, rates = time.monotonic() + 60 * minutes, []
        while time.monotonic() < ends:
            rates.append(
                load("produce -b 100000 -s 1000 -c 6 -d 5 -a -1", targets, system.pids, TOPIC, 10)[
                    "MBps"
                ]
            )
            print(
                f"{(ends - time.monotonic()) / 60:5.1f} minutes left  {rates[-1]:6.1f} MB/s",
                flush=True,
            )
        new = Counter({name: count - before[name] for name, count in _events(system).items()})
        elected = sum(_epochs(system)) - sum(epochs)
    figures = {
        "brokers fenced": new["broker_fenced"],
        "controllers elected": new["controller_active"],
        "leaders elected": elected,
    }
    print(
        "  ".join(f"{name} {count}" for name, count in figures.items()),
        f" ISR changes {new['isr_change_asked']}",
    )
    return not any(figures.values())


def _events(system: Raftka) -> Counter[str]:
    text = "".join(node.plan.log_file.read_text() for node in system.processes.nodes.values())
    return Counter({name: text.count(f'"{name}"') for name in EVENTS})


def _epochs(system: Raftka) -> list[int]:
    return [p.leader_epoch for p in ask_any(system.addresses, [TOPIC]).of(TOPIC)]


def kill_all(rounds: int, seed: int) -> bool:
    """The load never stops; each round ends when records are acknowledged again."""
    print(f"seed {seed}")
    chance = random.Random(seed)
    keys = [b"key-%02d" % i for i in range(40)]
    with Raftka(3) as system:
        system.start()
        system.wait_ready()
        system.create_topic(TOPIC, PARTITIONS, {"min.insync.replicas": "2"})
        system.create_topic(PROBE, 1, {"min.insync.replicas": "2"})
        tally, servers = Tally(keys), system.processes.bootstrap_servers
        sender, reader = (
            Sender(servers, TOPIC, PARTITIONS, tally),
            Reader(servers, TOPIC, PARTITIONS, tally),
        )
        stopped, failures = threading.Event(), list[BaseException]()
        sending = threading.Thread(
            target=_send, args=(sender, keys, stopped, failures), daemon=True
        )
        reader.on_failure = failures.append
        reader.start()
        sending.start()
        for done in range(rounds):
            stopped.wait(chance.uniform(*LIVE_SECONDS))
            if failures:
                raise failures[0]
            for node_id in (1, 2, 3):
                system.signal(node_id, signal.SIGKILL)
            for node_id in (1, 2, 3):
                system.kill(node_id)
            system.start()
            seconds = until_acknowledged(system.addresses, PROBE)
            print(
                f"round {done + 1:4}  acknowledged {tally.acknowledged:9,}  read "
                f"{tally.read_count:9,}  back after {seconds:.2f} s",
                flush=True,
            )
        stopped.set()
        sending.join()
        if failures:
            raise failures[0]
        sender.finish()
        reader.finish()
        sender.close()
    verdict = tally.verdict()
    demo.report(verdict, (), hashes=True, foreign=tally.foreign)
    return not (verdict.lost or verdict.duplicated or verdict.out_of_order)


def _send(
    sender: Sender, keys: list[bytes], stopped: threading.Event, failures: list[BaseException]
) -> None:
    try:
        while not stopped.wait(0.01):
            for key in keys:
                sender.send(key, b"x" * 200)
    except BaseException as error:  # a load that ended would look like one that is good
        failures.append(error)


def file(mib: int, seed: int) -> bool:
    """The demo's own way of sending a file, with one that is made here."""
    with tempfile.TemporaryDirectory(prefix="raftka-soak-") as folder:
        path = Path(folder) / "lines"
        chance = random.Random(seed)
        with path.open("wb") as out:
            while out.tell() < mib * 2**20:
                out.writelines(
                    chance.randbytes(chance.randrange(1000)).hex().encode() + b"\n"
                    for _ in range(1_000)
                )
        return demo.play(demo.Lines(path), Path(folder) / "cluster", hashes=True)


def chaos(minutes: float, seed: int, record: str | None) -> bool:
    """Seeds that follow each other, in pieces; then live rounds of three, four and five nodes."""
    print(f"seed {seed}", flush=True)
    jobs = os.cpu_count() or 1
    noted = ["--record", record] if record else []
    codes, end = [], time.monotonic() + 30 * minutes
    first = 1000 * seed
    while time.monotonic() < end:
        seeds = f"{first}-{first + PIECE * jobs - 1}"
        codes.append(_chaos("sim", "--seeds", seeds, "--jobs", str(jobs), *noted))
        first += PIECE * jobs
    each = ("--minutes", f"{minutes / 6:g}")
    codes += [
        _chaos("live", *each, "--nodes", str(nodes), "--seed", str(seed + nodes), *noted)
        for nodes in (3, 4, 5)
    ]
    return not any(codes)


def pipeline(kills: int, local_kills: int, cluster_kills: int, seed: int) -> bool:
    """Those of which there are any, one after the other."""
    from bench import pipeline_kills, spark_kills

    good = [pipeline_kills.soak(kills, seed)] if kills else []
    good += [spark_kills.soak(local_kills, seed, local=True)] if local_kills else []
    good += [spark_kills.soak(cluster_kills, seed, local=False)] if cluster_kills else []
    return all(good)


def _chaos(*arguments: str) -> int:
    return subprocess.run(
        [sys.executable, "-m", "raftka.cli", "chaos", *arguments], check=False
    ).returncode


def main() -> int:
    if len(sys.argv) < 2 or sys.argv[1].replace(".", "", 1).isdigit():
        sys.argv[1:1] = ["chaos"]
    parser = argparse.ArgumentParser(
        prog="./run soak", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    whole = commands.add_parser("chaos")
    whole.add_argument("minutes", type=float, nargs="?", default=10)
    whole.add_argument(
        "--record", metavar="FILE", help="append each piece's range, commit and result there"
    )
    commands.add_parser("calm").add_argument("--minutes", type=float, default=10)
    kills = commands.add_parser("kill-all")
    kills.add_argument("--rounds", type=int, default=200)
    lines = commands.add_parser("file")
    lines.add_argument("--mib", type=int, default=1024)
    spark = commands.add_parser("pipeline")
    spark.add_argument(
        "--kills", type=int, default=5, help="of the trucks' driver, and as many of leaders"
    )
    spark.add_argument(
        "--local-kills",
        type=int,
        default=34,
        help="in local mode: of driver, Python workers and leaders",
    )
    spark.add_argument(
        "--cluster-kills",
        type=int,
        default=10,
        help="on a standalone cluster: of executors and workers as well",
    )
    sql = commands.add_parser("sql")
    sql.add_argument("--kills", type=int, default=30, help="of the SQL server, its Java, a leader")
    for command in (whole, kills, lines, spark, sql):
        command.add_argument("--seed", type=int, default=random.randrange(10**6))
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    match options.command:
        case "chaos":
            good = chaos(options.minutes, options.seed, options.record)
        case "calm":
            good = calm(options.minutes)
        case "kill-all":
            good = kill_all(options.rounds, options.seed)
        case "pipeline":
            good = pipeline(options.kills, options.local_kills, options.cluster_kills, options.seed)
        case "sql":
            from bench import sql_kills

            good = sql_kills.soak(options.kills, options.seed)
        case _:
            good = file(options.mib, options.seed)
    print("good" if good else "FAILED")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
