"""Types of values that come from JSON or go there. What others have written is looked at before it
is believed.
"""

from typing import Any

Json = Any  # None, bool, int, float, str, or lists and objects of these
JsonObject = dict[str, Any]
