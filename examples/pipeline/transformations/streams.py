"""Everything that streams.yml declares."""

from raftka.pipeline.flows.flows import declare

declare("streams.yml")
