"""One node's side: connections of clients, reads, what is asked of the controller, monitoring."""
