"""Settings of subjects and contexts, and the contracts of schemas, which settings may add to."""
