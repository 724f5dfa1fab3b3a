"""The only door to the outside: interfaces.py says what it is, real/ and simulated/ are the two
sides of it.
"""
