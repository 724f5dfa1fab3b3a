#!/bin/sh
# Produce and consume with raftka's own command line: sh with_raftka.sh [BOOTSTRAP_SERVERS]
set -eu
export RAFTKA_BOOTSTRAP_SERVER="${1:-localhost:9092}"
topic=hello-raftka

raftka topics create "$topic" --partitions 1 >&2
printf 'key value-0\nkey value-1\nkey value-2\n' | raftka produce "$topic" --key-separator ' ' >&2
raftka consume "$topic" --from start --exit-at-end --keys | tr '\t' ' '
