"""Handlers of the JSON API, one file a noun. `routes.py` gathers them."""
