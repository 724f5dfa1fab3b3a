"""Coordinators as pure state machines: groups and their offsets. Knows no log, no socket, no
clock.
"""
