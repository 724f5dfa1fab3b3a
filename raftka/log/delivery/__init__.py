"""Delayed delivery: records that are hidden from readers until their time.

A record has two lives in one log. A *held* batch has the records as the client sent them, and no
consumer sees it. When a record is due, the leader appends a *delivering* batch with it, whose
records name the offset of their first life. So the log itself says which records are pending.
"""
