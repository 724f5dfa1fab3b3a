"""`python -m tests.broker.fuzz_node broker start FILE`: a node with less room for topics, so that
what frames create by chance is soon too much.
"""

from raftka.cli import main
from raftka.limits import PARTITIONS, TOPICS

for limit, value in ((TOPICS, 100), (PARTITIONS, 400)):
    object.__setattr__(limit, "value", value)

main()
