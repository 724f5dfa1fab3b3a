"""A project's streams: the declarations of streams.yml, their queries, and the supervisor that
keeps these running.
"""
