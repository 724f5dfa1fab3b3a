"""Delayed delivery on leaders: held records become readable when they are due."""
