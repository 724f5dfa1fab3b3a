"""The SQL server: a process with one Spark, and its door, which speaks HTTP."""
