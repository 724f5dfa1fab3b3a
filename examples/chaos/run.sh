#!/bin/sh
# Break simulated clusters and check that they keep their promises: sh run.sh [SEEDS]
# Exit code 1: a promise was broken. `raftka chaos replay SEED` then tells that life from its beginning.
set -eu
raftka chaos sim --seeds "${1:-0-2}"
