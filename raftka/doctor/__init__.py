"""Findings about a cluster: facts are gathered once, checks are functions of facts."""
