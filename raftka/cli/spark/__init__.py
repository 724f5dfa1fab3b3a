"""Parts of the commands that start Spark, or ask a process that has."""
