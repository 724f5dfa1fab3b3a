"""Formats of schemas: each package parses the text of one format, and finds the reasons why a
reader with one schema cannot read data that was written with another.
"""
