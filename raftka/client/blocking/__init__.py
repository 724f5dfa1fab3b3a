"""The client for callers that may block: one cluster, one thread. Its errors are Kafka's
(`KafkaError`), or say who did not answer.
"""
