"""Redrives that run in threads of their own: they go on when their page leaves, and end with the
login of their user.
"""

import secrets
import threading
import time

from raftka.console.call import ApiError
from raftka.console.dead_letters.redrive import Order, Redrive, State
from raftka.console.dead_letters.sent import Sent
from raftka.console.limits import ENDED_REDRIVES, REDRIVES, REMEMBERED_SECONDS
from raftka.console.sessions import Session
from raftka.json_values import JsonObject

ID_BYTES = 8


class Job:
    def __init__(self, redrive: Redrive, user: str | None, cluster: str) -> None:
        """`user`: None where nobody logs in. `cluster`: the brokers that the console began with."""
        self.id = secrets.token_hex(ID_BYTES)
        self.redrive, self.user, self.cluster = redrive, user, cluster

    def as_json(self) -> JsonObject:
        redrive = self.redrive
        return {
            "id": self.id,
            "topic": redrive.order.topic,
            "target": redrive.order.target,
            "state": redrive.state.value,
            "error": redrive.error or None,
            "sent": redrive.sent,
            "in_doubt": redrive.in_doubt,
            "by_target": dict(redrive.by_target),
            "refused": dict(redrive.refused),
            "done": redrive.done,
            "total": redrive.total,
            "began_ms": round(redrive.began_s * 1000),
            "ended_ms": round(redrive.ended_s * 1000) or None,
        }


class Jobs:
    """All redrives of a process. For many threads."""

    def __init__(self) -> None:
        self.sent = Sent()
        self._lock = threading.Lock()
        self._jobs: dict[str, Job] = {}  # the oldest first

    def may_end(self, idle_s: float) -> bool:
        """Return whether a process that nobody has looked at for so long may end: no redrive runs,
        and what was sent has been remembered for long enough.
        """
        with self._lock:
            if any(map(_runs, self._jobs.values())):
                return False
        return self.sent.is_empty or idle_s >= REMEMBERED_SECONDS.value

    def start(self, order: Order, session: Session, cluster: str) -> Job:
        """Raise ApiError when too many run, or one of the same topic does: two would send the same
        letters.
        """
        job = Job(Redrive(order, self.sent), session.user, cluster)
        with self._lock:
            running = [each for each in self._jobs.values() if _runs(each)]
            if any(
                each.redrive.order.topic == order.topic and each.cluster == cluster
                for each in running
            ):
                raise ApiError(409, "REDRIVE_RUNS", f"a redrive of {order.topic} runs already")
            if len(running) >= REDRIVES.value:
                raise ApiError(503, "TOO_BUSY", f"{REDRIVES.value} redrives run: wait for one")
            self._jobs[job.id] = job
            ended = [each for each in self._jobs.values() if not _runs(each)]
            for each in ended[: max(0, len(ended) - ENDED_REDRIVES.value)]:
                del self._jobs[each.id]

        def work() -> None:
            def is_over() -> bool:
                session.last_used = time.monotonic()  # it is at work, whoever looks
                return session.is_over

            with session.make_client() as client:
                job.redrive.run(client, is_over)

        threading.Thread(target=work, daemon=True, name=f"redrive {order.topic}").start()
        return job

    def of(self, user: str | None, cluster: str) -> list[Job]:
        """Return the user's redrives, the newest first."""
        with self._lock:
            jobs = list(self._jobs.values())
        return [each for each in reversed(jobs) if (each.user, each.cluster) == (user, cluster)]

    def stop(self, job_id: str, user: str | None, cluster: str) -> Job:
        """Raise ApiError for one that is not there, or another user's."""
        found = next((each for each in self.of(user, cluster) if each.id == job_id), None)
        if found is None:
            raise ApiError(404, "NOT_FOUND", "there is no such redrive")
        found.redrive.stop()
        return found


JOBS = Jobs()  # of this process


def _runs(job: Job) -> bool:
    return job.redrive.state is State.RUNNING
