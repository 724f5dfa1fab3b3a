"""The node's side of the metadata quorum: the Raft driver, the controller, and the connections to
controllers.
"""
