"""`python -m raftka`: what the command `raftka` does."""

from raftka.cli import main

main()
