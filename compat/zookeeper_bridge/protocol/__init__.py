"""ZooKeeper's client protocol: records as bytes, operations, errors, paths. Knows no tree."""
