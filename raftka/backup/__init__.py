"""Backups of a cluster that runs: make, list, verify and restore them, and rehearse a restore.

**The cut.** A backup is the cluster at one moment in this sense: all that was acknowledged before
`create` was called is in it; a committed offset never points behind a record that is missing; a
transaction is whole in all its partitions or aborted in all of them; a record's schema is in it.
Nothing is stopped for that, and no clock is compared. The order of steps does it (cut.py):

1. Every broker holds commits: its transaction coordinators decide none, and say so by
   CONCURRENT_TRANSACTIONS, after which clients ask again. Aborts go on.
2. The commits that were decided before are awaited, with all their markers. From here to step 6 a
   transaction is either committed, with a marker below the high watermark of each of its
   partitions, or not committed anywhere.
3. `__consumer_offsets`, `__transaction_state` and `__share_group_state` are cut. Offsets in them
   belong to records that were below a high watermark when they were committed.
4. The metadata are read, as committed now: topics, settings, ACLs, SCRAM, quotas, tokens.
5. All other partitions are cut, those of `_schemas` last: records name schemas, never the other way
   round.
6. The hold ends. It must have been in force all the time, at the brokers that are alive: a hold
   ends by itself after some seconds, and a broker that was started again has none. Else the cut is
   made anew.

Each partition is cut by its leader at its high watermark, once that has reached the end which the
log had when the leader was asked. So records that were acknowledged with acks=1 are inside.

**Restore.** What was open at the cut is aborted: in each partition by a marker behind its last
record, and in `__transaction_state` with a raised epoch, so that the producer of before the cut is
fenced. Offsets of topics that are not restored are removed. All other records are as they were, at
the same offsets (restore.py).

**Files.** A backup is a manifest and the files that it names (manifest.py). The manifest is written
last, so a power cut leaves either a whole backup or files that no manifest names; the next `create`
removes these. Files are shared by all backups in a place: the name of a file tells its content.

What the cut does not promise: an order between topics that only an application knows. A record that
a program wrote after it had read another may be inside without that other one, unless both are in
one transaction, or the reader has committed its offset before.
"""
