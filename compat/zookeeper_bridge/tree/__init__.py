"""The znodes of one moment: what is stored, what is computed of Kafka's metadata, quotas, ACLs and watches."""
