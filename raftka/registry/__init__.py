"""A schema registry with Confluent's REST API, whose state is the topic `_schemas`. Needs
raftka[registry]; knows no broker but as a client.

`rest/` answers requests from `state.py`, which holds what was read from the topic. A write is
decided by `registry.py` and `settings/` on that state and goes through `log.py`, which lets one
instance write at a time. `raftka/schemas/formats/` parses and compares schemas.
"""
