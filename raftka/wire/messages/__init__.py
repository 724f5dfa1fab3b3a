"""One short file per API family: names, types and versions of its fields, nothing about what they
mean.
"""
