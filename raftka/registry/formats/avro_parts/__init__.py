"""What `avro.py` is made of: types, their rules, defaults, the normal form."""
