"""`python -m raftka.cli`: what .venv/bin/raftka does."""

from raftka.cli import main

main()
