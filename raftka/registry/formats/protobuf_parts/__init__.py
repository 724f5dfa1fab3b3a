"""What `protobuf.py` is made of: protoc, descriptors as text, types, their rules."""
