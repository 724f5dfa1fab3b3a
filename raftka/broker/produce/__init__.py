"""Everything between a Produce request and the log: append, verification of transactions, schemas,
and the short way of requests that look like the one before."""
