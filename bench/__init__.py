"""Figures of raftka beside a floor in C and Apache Kafka on the same machine, told as ratios:
`./run bench`.
"""
