"""Imports the parts of pysyncobj that are used, without what it would bring along. Knows nothing
else.

Where cryptography is installed pysyncobj imports it, for a password that is never set here: 6 MB
and a tenth of a second of every start.
"""

import sys

_hidden = "cryptography" not in sys.modules
if _hidden:
    # an import of it fails, which pysyncobj allows for
    sys.modules["cryptography"] = None  # type: ignore[assignment]

from pysyncobj import SyncObj, SyncObjConf, syncobj  # noqa: E402
from pysyncobj.node import Node  # noqa: E402
from pysyncobj.transport import Transport  # noqa: E402

if _hidden:
    del sys.modules["cryptography"]

__all__ = ["Node", "SyncObj", "SyncObjConf", "Transport", "syncobj"]
