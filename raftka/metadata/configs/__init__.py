"""Settings: their definitions, what may change while nodes run, validation, and how they are
described.
"""
