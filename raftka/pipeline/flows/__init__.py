"""A project's streams: what streams.yml says, the queries it becomes, and what keeps them going."""
