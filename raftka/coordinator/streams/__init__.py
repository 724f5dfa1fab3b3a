"""Streams groups (KIP-1071): the brokers assign the tasks of Kafka Streams."""
