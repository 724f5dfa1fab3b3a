"""What `json_schema.py` is made of: documents and references, nodes, regular expressions, rules."""
