"""Connectors: sources and sinks of a flow beside topics and Delta tables. Folders of files, HTTP,
tables of databases, Iceberg.
"""
