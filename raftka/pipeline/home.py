"""A SPARK_HOME for one machine whose Python is the installed one. Spark's own puts pyspark.zip
first on its workers' path: modules without byte code, which each worker compiles anew, a second of
CPU each. Knows no Spark but where its files are.
"""

import os
from pathlib import Path


def fast_home(installed: Path, home: Path) -> Path:
    """Make a SPARK_HOME of links to the files in `installed`, where they are missing. Return it.
    Raise OSError.
    """
    places = {home / name: installed / name for name in ("bin", "sbin", "jars")}
    places |= {
        home / "python" / "lib" / each.name: each
        for each in (installed / "python" / "lib").glob("py4j-*-src.zip")
    }
    for place, target in places.items():
        place.parent.mkdir(parents=True, exist_ok=True)
        if os.path.realpath(place) != os.path.realpath(target):
            fresh = place.with_name(f"{place.name}.{os.getpid()}")
            fresh.unlink(missing_ok=True)
            fresh.symlink_to(target)
            fresh.replace(place)  # whole at once: another process may be about to use it
    return home
