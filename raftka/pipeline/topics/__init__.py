"""Topics for Spark: options, offsets, plans of batches, sources and sinks."""
