"""Questions and queries in Spark."""
