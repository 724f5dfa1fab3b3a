"""Everything between a Fetch request and its answer: sessions, reads, waits, the answer, and the
short ways of consumers and followers."""
