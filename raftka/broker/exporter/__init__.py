"""HTTP pages: metrics in Prometheus' format, health."""
