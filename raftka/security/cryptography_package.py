"""The optional package cryptography, which comes with raftka[security]: PKCS12 stores, the keys of
an issuer of tokens, and the certificates of `--secure` need it.
"""

from importlib.util import find_spec

NEEDS_IT = (
    "needs the Python package cryptography, which is not installed: pip install 'raftka[security]'"
)


def is_installed() -> bool:
    return find_spec("cryptography") is not None
