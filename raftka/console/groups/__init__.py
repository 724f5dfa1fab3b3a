"""Groups as the console shows them: lag, members, why one does not move, changes with a preview."""
