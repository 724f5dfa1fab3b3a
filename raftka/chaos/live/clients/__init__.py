"""Clients of a live round: libraries, Java's, our own on the wire; what each does, in a process of
its own.
"""
