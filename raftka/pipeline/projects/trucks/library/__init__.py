"""States of trucks, for the flows of transformations/moves.py. `raftka pipeline init` copies none
of this: it is installed with raftka, so that Spark's workers can import it.
"""
