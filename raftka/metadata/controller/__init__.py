"""The controller's decisions: pure functions from an image of the metadata and a command to
records.
"""
