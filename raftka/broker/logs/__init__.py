"""Care of the logs: opening, retention, cleaning, moving between directories, and logs that a disk
has damaged.
"""
