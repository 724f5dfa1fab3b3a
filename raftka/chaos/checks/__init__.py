"""One file for each family of anomalies, after the analysis that Jepsen made for Kafka. Pure, and
linear in the history but for sorting.
"""
