"""The transaction coordinator: identities of transactional producers, and which transactions are
open, ending, or over. Pure, as all machines.
"""
