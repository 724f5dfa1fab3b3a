"""Connectors: what a flow reads and writes beside topics and Delta tables. Folders of files, HTTP,
tables of databases, Iceberg.
"""
