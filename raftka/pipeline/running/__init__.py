"""Work beside the flows of `raftka pipeline run`: checks before the start, its end, lag and
metrics. Knows no Spark.
"""
