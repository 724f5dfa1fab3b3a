"""Types of schemas: each module parses the text of one type, and tells why a reader with one schema
cannot read what was written with another.
"""
