"""The environment of a command that runs from this checkout."""

import os
import sys

FROM_CHECKOUT = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
