"""All that streams.yml declares."""

from raftka.pipeline.flows import declare

declare("streams.yml")
