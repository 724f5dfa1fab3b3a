"""Failures of a backup. The text is for the user, and says the next step."""


class BackupError(Exception):
    """The backup cannot be made, read or restored."""


class Damaged(BackupError):
    """A file of the backup is not as it was written."""
