"""Records of topics as columns: batches, decoding, kinds of fields. Knows no connection."""
