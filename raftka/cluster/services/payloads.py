"""The process beside a node that compares payloads with schemas, started when a topic asks for
that. Without raftka[registry] there is none.
"""

from raftka.broker.handlers.services import Services
from raftka.registry.payloads.judge import ProcessJudge, is_there


def open_judge(services: Services) -> ProcessJudge | None:
    """`end` it with the node."""
    judge = ProcessJudge() if is_there() else None
    services.schemas.judge = judge
    return judge
