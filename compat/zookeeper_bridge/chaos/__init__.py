"""The bridge under simulated faults: `raftka chaos sim --work sessions`, in the wheel as well."""
