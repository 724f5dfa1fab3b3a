"""The prompt `raftka sql`: reads statements, shows answers. Knows no Spark."""
