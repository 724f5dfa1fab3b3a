"""`raftka generate`: files for Grafana, Prometheus and systemd, which stand around a cluster."""
