"""One live round: a cluster starts, clients write and read, faults come and go, all heals, fresh
consumers read everything, the checker judges.

The seed chooses the faults and what clients send; when something happens the machine decides, so a
seed replays a round's plan and not its outcome.
"""

import json
import random
import shutil
import time
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field, replace
from math import inf
from pathlib import Path

from raftka import __version__
from raftka.chaos import checker
from raftka.chaos.history import History, load, longest_write_s
from raftka.chaos.live import copies
from raftka.chaos.live.clients.clients import LIBRARIES
from raftka.chaos.live.clients.copying import target
from raftka.chaos.live.clients.java import NAME as JAVA
from raftka.chaos.live.clients.workers import Workers, clients_here, missing
from raftka.chaos.live.metadata_log import seen_in
from raftka.chaos.live.nemeses.mix import chosen
from raftka.chaos.live.nemeses.nemesis import Nemesis
from raftka.chaos.live.nemeses.upgrades import Upgrade
from raftka.chaos.live.network import OwnNetwork
from raftka.chaos.live.samples import Sampler
from raftka.chaos.live.shares import crowd
from raftka.chaos.live.stage import Stage
from raftka.chaos.simulated import releases
from raftka.chaos.verdict import Anomaly, Outcome, Rules, Verdict
from raftka.cluster.processes import ClusterFailed
from raftka.json_values import JsonObject
from raftka.wire.errors import Code
from raftka.wire.messages.find_coordinator import FIND_COORDINATOR
from raftka.wire.messages.topics import CREATE_TOPICS

TOPIC = "chaos"
SEGMENT_BYTES = "1048576"  # so that some are rolled
AT_ONCE = ((0, 1), (1, 5), (2, 3), (3, 1))  # how many faults together, how often
HOLD_S, REST_S, STAGGER_S = (2.0, 10.0), (2.0, 6.0), (0.0, 1.5)
WARM_S = 2.0
STEP_S = 0.1
OF_GROUP, OF_TRANSACTION = 0, 1  # types of keys in FindCoordinator
GROUPS = ("mixed", "new", "own")
TOPIC_S = 30.0
FLOWS_S, FLOWING = 30.0, 20  # acknowledged operations before the first fault
LEAST_PER_S = 2.0  # acknowledged and read: with less the run shows nothing


@dataclass(frozen=True, slots=True)
class Options:
    minutes: float
    nodes: int = 3
    nemesis: tuple[str, ...] = ("mix",)
    seed: int = 1
    partitions: int = 4
    per_s: float = 20.0  # records of each client
    clients: tuple[str, ...] = ()  # all that are here
    module: str = "raftka.cli"  # what nodes run; a test plants its bug there
    settings: Mapping[str, str] = field(default_factory=dict)  # of the nodes
    kafka_home: str = ""  # where the jars of Java's clients are
    secure: bool = False  # TLS everywhere, certificates on both sides, an authorizer
    earlier: Path | None = None  # the wheel that all nodes begin with; they are upgraded
    share_consumers: int = 0  # beside the clients; they are killed and started again all the time

    @property
    def command(self) -> str:
        java = f" --kafka-home {self.kafka_home}" if self.kafka_home else ""
        begin = (
            f"raftka chaos live{' --secure' if self.secure else ''} --minutes {self.minutes:g} "
            f"--nodes {self.nodes}"
        )
        if self.earlier is not None:
            begin += f" --upgrade-from {self.earlier}"
        if self.share_consumers:
            begin += f" --share-consumers {self.share_consumers}"
        return f"{begin} --nemesis {','.join(self.nemesis)} --seed {self.seed}{java}"


@dataclass(slots=True)
class Run:
    """The result of a run. `folder` has the rest."""

    options: Options
    folder: Path
    verdict: Verdict
    figures: JsonObject
    missing: list[str]


Say = Callable[[str], None]


def live(
    options: Options,
    folder: Path,
    say: Say = lambda line: None,
    commit: str = "",
    network: OwnNetwork | None = None,
) -> Run:
    """Raises ClusterFailed when the cluster does not even start."""
    folder.mkdir(parents=True, exist_ok=True)
    for old in (
        "history.jsonl",
        "transactions.jsonl",
        "faults.jsonl",
        "samples.jsonl",
        "verdict.json",
        "plan.json",
    ):
        (folder / old).unlink(missing_ok=True)
    # of an earlier run: nobody knows what of it was flushed
    shutil.rmtree(folder / "cluster", ignore_errors=True)
    with Stage(
        folder / "cluster",
        options.nodes,
        {**(crowd.SETTINGS if options.share_consumers else {}), **options.settings},
        options.module,
        network,
        secure=options.secure,
        earlier=releases.installed(options.earlier) if options.earlier is not None else None,
    ) as stage:
        return _Round(options, folder, stage, say, commit).play()


class _Round:
    def __init__(self, options: Options, folder: Path, stage: Stage, say: Say, commit: str) -> None:
        self.options, self.folder, self.stage = options, folder, stage
        self._say = say
        self.began = time.monotonic()
        self.random = random.Random(options.seed)
        wanted = chosen(each for each in options.nemesis if each != Upgrade.name)
        if options.earlier is not None:  # as often as any other fault, at each node
            wanted += [Upgrade(releases.load(options.earlier)) for _ in range(options.nodes)]
        lacking = {each.name: why for each in wanted if (why := each.missing(stage))}
        self.nemeses = [each for each in wanted if each.name not in lacking]
        self.missing = [f"{name}: {why}" for name, why in lacking.items()]
        self.missing += [
            f"the client {name}: {why}" for name, why in missing(options.kafka_home).items()
        ]
        self.clients = list(options.clients) or clients_here(options.kafka_home)
        if options.secure and JAVA in self.clients:
            self.missing.append("Java's copier in transactions: it knows no TLS")
        self.happened: Counter[str] = Counter()
        self.bit: Counter[str] = Counter()
        self.rounds = 0
        self.first_fault_s = inf  # clients begin slowly: a JVM, their metadata
        self.crowd: crowd.Crowd | None = None
        self.wrong: list[Anomaly] = []  # beside what clients saw
        self._faults = (folder / "faults.jsonl").open("w", encoding="utf-8")
        self._write(
            "plan.json",
            {
                "kind": "live",
                **asdict(options),
                "version": __version__,
                "commit": commit,
                "replay": options.command,
            },
        )

    @property
    def now_s(self) -> float:
        return round(time.monotonic() - self.began, 2)

    def play(self) -> Run:
        for line in self.missing:
            self._say(f"not here: {line}")
        self._prepare()
        sampler = Sampler(self.stage, TOPIC, self.folder / "samples.jsonl", self.began)
        sampler.start()
        healed_after_s = -1.0
        shares: JsonObject = {}
        try:
            with ExitStack() as resources:
                workers = resources.enter_context(Workers(self.clients, self._given()))
                if self.options.share_consumers:
                    self.crowd = resources.enter_context(self._crowd())
                self._suffer()
                healed_after_s = self._heal()
                workers.stop()
                workers.read_everything()
                troubles = workers.wrong
                if self.crowd is not None:
                    shares = self._judge_shares(self.crowd)
        finally:
            sampler.stop()
            self._faults.close()
        seconds = self.now_s
        self.stage.watch()
        self._note_deaths()
        self.stage.processes.stop()
        return self._judge(seconds, healed_after_s, troubles, shares)

    def _crowd(self) -> crowd.Crowd:
        options = self.options
        return crowd.Crowd(
            self.stage,
            self.folder,
            TOPIC,
            options.partitions,
            options.share_consumers,
            options.seed,
        )

    def _judge_shares(self, sharers: crowd.Crowd) -> JsonObject:
        """Let the share consumers finish, and return their figures."""
        broken = sharers.finish()
        found = sharers.judge()
        self.wrong += [
            Anomaly(kind.replace(" ", "-"), TOPIC, sentence, ()) for kind, sentence in found.wrong
        ]
        self.wrong += [Anomaly("share-consumers", TOPIC, each, ()) for each in broken]
        return found.figures

    def _given(self) -> dict[str, object]:
        return {
            "servers": self.stage.bootstrap_servers,
            "keys": self.stage.keys,
            "topic": TOPIC,
            "partitions": self.options.partitions,
            "per_s": self.options.per_s,
            "history": str(self.folder / "history.jsonl"),
            "transactions": str(self.folder / "transactions.jsonl"),
            "began": self.began,
            "seed": self.options.seed,
            "kafka_home": self.options.kafka_home,
        }

    def _prepare(self) -> None:
        request = CREATE_TOPICS.request
        configs = {"min.insync.replicas": "2", "segment.bytes": SEGMENT_BYTES}
        given = [request.topics.configs(name=name, value=value) for name, value in configs.items()]
        rows = [
            request.topics(
                name=name,
                num_partitions=self.options.partitions,
                replication_factor=3,
                configs=given,
            )
            for name in self.topics
        ]
        answer = self.stage.ask_anybody(CREATE_TOPICS, request(topics=rows, timeout_ms=5000))
        if answer is None or any(
            each.error_code not in (Code.NONE, Code.TOPIC_ALREADY_EXISTS) for each in answer.topics
        ):
            raise ClusterFailed(f"the topics could not be made: {answer}")
        self.stage.until_whole(self.topics)
        asked = [*((OF_GROUP, group) for group in GROUPS), (OF_TRANSACTION, TOPIC)]
        # so that their topics are made on who stays
        self.stage.wait_for(lambda: all(self._coordinated(*each) for each in asked), TOPIC_S)

    def _coordinated(self, kind: int, key: str) -> bool:
        answer = self.stage.ask_anybody(
            FIND_COORDINATOR, FIND_COORDINATOR.request(key=key, key_type=kind), version=3
        )
        return answer is not None and not answer.error_code

    @property
    def copying(self) -> dict[str, str]:
        """The topic of each client that copies in transactions."""
        able = LIBRARIES if self.options.secure else (*LIBRARIES, JAVA)
        return {client: target(TOPIC, client) for client in self.clients if client in able}

    @property
    def topics(self) -> list[str]:
        return [TOPIC, *self.copying.values()]

    # faults

    def _suffer(self) -> None:
        """The deck is dealt through before any fault comes twice."""
        self.stage.wait_for(self._flows, FLOWS_S)
        deck: deque[Nemesis] = deque()
        end = time.monotonic() + 60 * self.options.minutes
        self._wait(min(WARM_S, 10 * self.options.minutes))
        while time.monotonic() < end:
            if not deck:
                deck.extend(self.random.sample(self.nemeses, len(self.nemeses)))
            sizes, weights = zip(*AT_ONCE, strict=True)
            count = self.random.choices(sizes, weights)[0]
            self._together([deck.popleft() for _ in range(min(count, len(deck)))], end)
            self.rounds += 1
            for node_id in self.stage.members:
                self.stage.start(node_id)
            self._wait(min(self.random.uniform(*REST_S), max(0.0, end - time.monotonic())))

    def _flows(self) -> bool:
        """Something was acknowledged: before that a fault has nothing to break."""
        path = self.folder / "history.jsonl"
        if not path.exists():
            return False
        with path.open(encoding="utf-8") as lines:
            return sum(line.startswith('["ok"') and '"sends"' in line for line in lines) >= FLOWING

    def _together(self, nemeses: Sequence[Nemesis], end: float) -> None:
        under_way: list[tuple[Nemesis, float, str]] = []
        bit: set[str] = set()
        for each in nemeses:
            at_s, chance = self.now_s, random.Random(self.random.random())
            what = each.begin(self.stage, TOPIC, chance)
            under_way.append((each, at_s, what))
            self.first_fault_s = min(self.first_fault_s, at_s)
            self._say(f"{at_s:7.1f} s  {each.name}: {what}")
            self._wait(self.random.uniform(*STAGGER_S), under_way, bit)
        hold_s = self.random.uniform(*HOLD_S)
        self._wait(min(hold_s, max(HOLD_S[0], end - time.monotonic())), under_way, bit)
        # so that the one before finds what it began with
        for each, at_s, what in reversed(under_way):
            each.end(self.stage)
            self.happened[each.name] += 1
            self.bit[each.name] += each.name in bit
            self._note_fault(each.name, at_s, what, bit=each.name in bit)
        self._faults.flush()

    def _note_fault(self, kind: str, at_s: float, what: str, *, bit: bool) -> None:
        line = {"at_s": at_s, "until_s": self.now_s, "kind": kind, "what": what, "bit": bit}
        self._faults.write(json.dumps(line) + "\n")

    def _wait(
        self,
        seconds: float,
        under_way: Sequence[tuple[Nemesis, float, str]] = (),
        bit: set[str] | None = None,
    ) -> None:
        end = time.monotonic() + seconds
        while True:
            self.stage.watch()
            self._note_deaths()
            if self.crowd is not None and (what := self.crowd.step()):
                self.happened[crowd.NEMESIS] += 1
                self.bit[crowd.NEMESIS] += 1
                self._note_fault(crowd.NEMESIS, self.now_s, what, bit=True)
            for each, _, _ in under_way:
                if bit is not None and each.name not in bit and each.bitten(self.stage):
                    bit.add(each.name)
            if (left := end - time.monotonic()) <= 0:
                return
            time.sleep(min(left, STEP_S))

    def _note_deaths(self) -> None:
        """A node may end when its disk fails, and else only when we end it."""
        while self.stage.died:
            said = self.stage.died.pop()
            self.wrong.append(Anomaly("node-died", said.partition(";")[0], said, ()))
            self._say(f"{self.now_s:7.1f} s  {said}")

    def _heal(self) -> float:
        """Seconds until everybody is in sync again; -1 when that does not happen, which is an
        anomaly.
        """
        began = time.monotonic()
        self._say(f"{self.now_s:7.1f} s  all is healed")
        try:
            self.stage.heal()
            for each in self.nemeses:
                each.settle(self.stage)
            self.stage.until_whole(self.topics)
        except ClusterFailed as error:
            self.wrong.append(Anomaly("not-healed", TOPIC, str(error), ()))
            return -1.0
        healed_after_s = time.monotonic() - began
        self._wait(WARM_S)
        return round(healed_after_s, 2)

    # the end

    def _judge(
        self, seconds: float, healed_after_s: float, troubles: list[str], shares: JsonObject
    ) -> Run:
        with (self.folder / "history.jsonl").open(encoding="utf-8") as lines:
            history = load(lines)
        least = int(LEAST_PER_S * 60 * self.options.minutes)
        nodes = self.stage.nodes
        seen = seen_in(
            (f"node {voter}", Path(nodes[voter].plan.properties["log.dirs"]))
            for voter in self.stage.voters
        )
        verdict = checker.check(
            history, Rules(least_acknowledged=max(1, least), least_polled=max(1, least)), seen
        )
        transactions = self._judge_copies()
        if self.wrong:
            counts = verdict.counts + Counter(each.kind for each in self.wrong)
            verdict = replace(
                verdict,
                outcome=Outcome.VIOLATED,
                anomalies=[*self.wrong, *verdict.anomalies],
                counts=counts,
            )
        figures = {
            "seconds": seconds,
            "rounds": self.rounds,
            "faults": dict(sorted(self.happened.items())),
            "bit": dict(sorted(self.bit.items())),
            "clients": self.clients,
            "healed_after_s": healed_after_s,
            "troubles": troubles,
            "metadata_seen": len(seen),
            "transactions": transactions,
            "share_consumers": shares,
            "longest_write_s": round(longest_write_s(history, self.first_fault_s), 3),
            **figures_of(history, verdict),
        }
        run = Run(self.options, self.folder, verdict, figures, self.missing)
        self._write(
            "verdict.json", {**verdict_fields(verdict), "figures": figures, "missing": self.missing}
        )
        return run

    def _judge_copies(self) -> JsonObject:
        """Their figures by client; what is wrong is added to the rest."""
        path, figures = self.folder / "transactions.jsonl", {}
        if not path.exists():
            return {}
        with path.open(encoding="utf-8") as lines:
            written = copies.load(lines, TOPIC, self.copying)
        directories = [Path(node.plan.properties["log.dirs"]) for node in self.stage.nodes.values()]
        for client, topic in self.copying.items():
            verbatim = TOPIC if client == JAVA else ""
            found = copies.judge(
                written[client], topic, self.options.partitions, directories, verbatim
            )
            self.wrong += [
                Anomaly(sentence.partition(":")[0].replace(" ", "-"), topic, sentence, ())
                for sentence in found.wrong
            ]
            figures[client] = {**found.results, "copied": found.copied}
        return figures

    def _write(self, name: str, value: object) -> None:
        (self.folder / name).write_text(
            json.dumps(value, indent=1, default=str) + "\n", encoding="utf-8"
        )


def verdict_fields(verdict: Verdict) -> JsonObject:
    return {
        "outcome": verdict.outcome,
        "reason": verdict.reason,
        "counts": dict(verdict.counts),
        "notes": dict(verdict.notes),
        "anomalies": [
            {
                "kind": each.kind,
                "key": each.key,
                "sentence": each.sentence,
                "operations": list(each.operations),
            }
            for each in verdict.anomalies
        ],
    }


def figures_of(history: History, verdict: Verdict) -> dict[str, object]:
    """Counts of a history, as the documents have them."""
    outcomes = Counter((each.verb, each.outcome) for each in history.operations)
    return {
        "operations": len(history.operations),
        "sent": sum(len(each.sends) for each in history.operations),
        "acknowledged": sum(len(each.sends) for each in history.operations if each.outcome == "ok"),
        "read": sum(
            len(records) for each in history.operations for records in each.polled.values()
        ),
        "lost": sum(verdict.counts[kind] for kind in ("lost-write", "torn-transaction", "unseen")),
        "duplicates": verdict.counts["duplicate"],
        "by_verb": {
            f"{verb} {outcome}": count for (verb, outcome), count in sorted(outcomes.items())
        },
    }
