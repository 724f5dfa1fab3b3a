"""What the active controller decides for the bridge: writes to znodes and sessions, and writes to what is Kafka's."""
