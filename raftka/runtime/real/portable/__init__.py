"""The runtime on Trio's own waits and on threads: it runs wherever Trio runs on POSIX."""
