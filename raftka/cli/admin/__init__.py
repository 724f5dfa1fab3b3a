"""Commands for topics, settings, groups and partitions; they work against any Kafka."""
