"""Values written with a schema: checked for the registry, read as plain Python values for the
pipeline.
"""


class Misfit(Exception):
    """The bytes are no value of the schema, or the value is not of its declared kind. The text says
    why.
    """
