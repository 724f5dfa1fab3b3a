"""The cluster as a whole: moves of leaders and replicas, findings, and the next step."""
