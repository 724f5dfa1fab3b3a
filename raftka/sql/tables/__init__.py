"""Tables kept up to date beside their topics: rows by key without Spark."""
