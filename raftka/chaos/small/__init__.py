"""The metadata quorum and the replication of one partition alone: pure machines that send each
other messages. Ten lives and more a second.
"""
