"""The image of raftka for containers: how it is built, measured and tried."""
