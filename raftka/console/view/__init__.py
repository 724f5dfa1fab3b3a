"""The cluster as pages see it: asked through Kafka's protocol, kept for a while, shared by all
pages of a login.
"""
