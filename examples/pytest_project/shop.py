"""The program under test: it sends an order, and tries again when a broker refuses it."""

from kafka import KafkaProducer


def send_order(bootstrap_servers: str, topic: str, customer: str, order: str) -> None:
    with KafkaProducer(bootstrap_servers=bootstrap_servers, acks="all") as producer:
        producer.send(topic, key=customer.encode(), value=order.encode()).get(30)
