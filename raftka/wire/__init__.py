"""Kafka's protocol as bytes: messages, frames, record batches, compression and the client side.
Pure: no socket, clock, file or thread.
"""
