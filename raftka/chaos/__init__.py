"""Trust: what clients saw while a cluster suffered, and whether a Kafka may show that."""
