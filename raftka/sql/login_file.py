"""A user's login as a file of client properties that is on no disk: Spark's plans have its path."""

import json
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path

from raftka.pipeline.errors import PipelineError


class LoginFile:
    def __init__(
        self, properties: Mapping[str, str], mechanism: str, user: str, password: str
    ) -> None:
        """`properties`: of a client, whose own login is left out. Raise PipelineError where there
        is no Linux.
        """
        if not hasattr(os, "memfd_create"):
            raise PipelineError("logins of users need Linux. Next step: give them the token")
        has_tls = properties.get("security.protocol", "").upper().endswith("SSL")
        own = {
            name: value for name, value in properties.items() if not name.startswith("sasl.")
        } | {
            "security.protocol": "SASL_SSL" if has_tls else "SASL_PLAINTEXT",
            "sasl.mechanism": mechanism,
            "sasl.username": user,
            "sasl.password": password,
        }
        self._descriptor = os.memfd_create("login")
        os.write(self._descriptor, json.dumps(own).encode())
        # a link of its own: the number of a descriptor may be that of another login later
        self.path = Path(tempfile.mkdtemp(prefix="raftka-login-")) / "client.json"
        self.path.symlink_to(f"/proc/{os.getpid()}/fd/{self._descriptor}")

    def close(self) -> None:
        """A query that still runs with this login cannot read it any more."""
        self.path.unlink()
        self.path.parent.rmdir()
        os.close(self._descriptor)
