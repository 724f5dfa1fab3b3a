"""The bridge on one node: connections of clients, reads, requests to the controller, monitoring."""
