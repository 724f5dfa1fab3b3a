"""The only door to the outside: door.py says what it is, real.py and simulated.py are the two sides of it."""
