"""A Kerberos realm of MIT's programs, in a folder and on a free port, for as long as a test runs.
Knows no broker.

This process is its client: the Kerberos library takes its configuration from the environment, which
is put back at the end.
"""

import importlib.util
import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest.mock import patch

from raftka.cluster.ports import HeldPorts
from tests.clients.workload import wait
from tests.kit.toolchains import Missing, Program

REALM = "RAFTKA.TEST"
HOST = socket.gethostbyaddr("127.0.0.1")[0]  # as the libraries look it up: `localhost`
CLOCK_SKEW_MS = 20_000  # that the library allows for; five minutes, unless it is told
PROGRAMS = ("krb5kdc", "kdb5_util", "kadmin.local")
PATH = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
CLIENT = f"""[libdefaults]
default_realm = {REALM}
dns_lookup_kdc = false
dns_lookup_realm = false
rdns = true
udp_preference_limit = 1
clockskew = {CLOCK_SKEW_MS // 1000}
[realms]
{REALM} = {{
  kdc = 127.0.0.1:PORT
}}
[domain_realm]
{HOST} = {REALM}
"""
KDC = f"""[kdcdefaults]
kdc_listen = 127.0.0.1:PORT
kdc_tcp_listen = 127.0.0.1:PORT
[realms]
{REALM} = {{
  database_name = FOLDER/principals
  key_stash_file = FOLDER/stash
  acl_file = FOLDER/acl
  max_life = 10h
}}
[logging]
kdc = FILE:FOLDER/kdc.log
"""


def there() -> Program:
    """The server. Raises Missing."""
    missing = [each for each in PROGRAMS if shutil.which(each, path=PATH) is None]
    if missing:
        raise Missing(
            f"there is no {missing[0]} (on Debian: apt install krb5-kdc krb5-admin-server)"
        )
    if importlib.util.find_spec("gssapi") is None:
        raise Missing(
            "the extra gssapi is not installed (apt install libkrb5-dev; pip install "
            "'raftka[gssapi]')"
        )
    return Program([shutil.which(PROGRAMS[0], path=PATH) or "", "-n"])


@contextmanager
def running() -> Iterator["Kdc"]:
    with TemporaryDirectory(prefix="raftka-kdc-") as name, HeldPorts(1) as ports:
        folder, (port,) = Path(name), ports.numbers
        for file, text in (("krb5.conf", CLIENT), ("kdc.conf", KDC)):
            (folder / file).write_text(text.replace("PORT", str(port)).replace("FOLDER", name))
        with patch.dict(
            os.environ,
            KRB5_CONFIG=f"{folder}/krb5.conf",
            KRB5_KDC_PROFILE=f"{folder}/kdc.conf",
            KRB5RCACHENAME=f"file2:{folder}/replays",
            KRB5CCNAME="MEMORY:nobody",
            KRB5_CLIENT_KTNAME=f"{folder}/none",
        ):
            _run("kdb5_util", "create", "-s", "-P", "of the database")
            kdc = subprocess.Popen(there().command, stdout=subprocess.DEVNULL)
            try:
                wait(lambda: _listens(port))
                yield Kdc(folder)
            finally:
                kdc.kill()
                kdc.wait()


class Kdc:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.config = folder / "krb5.conf"

    def add(self, principal: str, *options: str) -> Path:
        """A keytab of a new principal."""
        keytab = self.folder / f"{principal.replace('/', '-')}.keytab"
        _run(
            "kadmin.local", "-r", REALM, "-q", f"addprinc -randkey {' '.join(options)} {principal}"
        )
        _run("kadmin.local", "-r", REALM, "-q", f"ktadd -k {keytab} {principal}")
        return keytab

    def change(self, principal: str, keytab: Path) -> None:
        """A new key of the principal, beside the old ones in the keytab."""
        _run("kadmin.local", "-r", REALM, "-q", f"ktadd -k {keytab} {principal}")

    @contextmanager
    def as_client(self, keytab: Path) -> Iterator[None]:
        """Clients in this process are the owner of the keytab."""
        with patch.dict(
            os.environ, KRB5_CLIENT_KTNAME=str(keytab), KRB5CCNAME=f"MEMORY:{keytab.stem}"
        ):
            yield


def _run(program: str, *arguments: str) -> None:
    command = [shutil.which(program, path=PATH) or program, *arguments]
    subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        check=True,
        timeout=60,
    )


def _listens(port: int) -> bool:
    with socket.socket() as sock:
        return sock.connect_ex(("127.0.0.1", port)) == 0
