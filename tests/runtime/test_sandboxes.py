"""The Linux runtime in a sandbox that refuses the kernel's own flushes, as strict profiles of
containers and gVisor do: it goes on with threads.
"""

import errno
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from raftka.runtime.real.choice import LINUX

ROOT = Path(__file__).parents[2]
# A filter of system calls (man 2 seccomp), in the kernel's own notation: those named are refused.
CHILD = """
import ctypes, json, os, platform, struct, sys, threading
from pathlib import Path

CALLS = {"x86_64": (206, 207, 208, 209, 425, 426, 427), "aarch64": (0, 1, 2, 4, 425, 426, 427)}
PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, FILTER = 38, 22, 2
LOAD, EQUAL, RETURN, ALLOW, ERRNO = 0x20, 0x15, 0x06, 0x7FFF0000, 0x00050000


def refuse(error):
    numbers = CALLS[platform.machine()]
    steps = [struct.pack("HBBI", LOAD, 0, 0, 0)]
    for place, number in enumerate(numbers):
        steps.append(struct.pack("HBBI", EQUAL, len(numbers) - place, 0, number))
    steps.append(struct.pack("HBBI", RETURN, 0, 0, ALLOW))
    steps.append(struct.pack("HBBI", RETURN, 0, 0, ERRNO | error))
    program = ctypes.create_string_buffer(b"".join(steps))
    given = struct.pack("HxxxxxxP", len(steps), ctypes.addressof(program))
    libc = ctypes.CDLL(None, use_errno=True)
    for arguments in ((PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), (PR_SET_SECCOMP, FILTER, given, 0, 0)):
        if libc.prctl(*arguments):
            print(json.dumps({"unfiltered": os.strerror(ctypes.get_errno())}))
            sys.exit()
    libc.syscall(numbers[0], 1, ctypes.byref(ctypes.c_ulong(0)))
    return ctypes.get_errno()


refused = refuse(int(sys.argv[1]))

import trio
from kafka import KafkaProducer
from raftka.cluster import launch
from raftka.runtime.real.linux.kernel import Kernel


def produce(servers):
    producer = KafkaProducer(bootstrap_servers=servers, acks="all")
    offset = producer.send("orders", b"flushed").get(30).offset
    producer.close()
    return offset


async def main():
    kernel = Kernel()
    works = kernel.works
    kernel.close()
    async with launch(nodes=1) as cluster:
        kind = cluster.nodes[1].node.runtime.kind
        offset = await trio.to_thread.run_sync(produce, cluster.bootstrap_servers)
        names = {each.name for each in threading.enumerate()}
    threads = sum(name.startswith("raftka-flush") for name in names)
    print(json.dumps(
        {"refused": refused, "works": works, "kind": kind, "offset": offset, "threads": threads}
    ))

trio.run(main)
"""


@pytest.mark.parametrize("error", [errno.EPERM, errno.ENOSYS])
def test_a_node_whose_kernel_may_not_flush_by_itself_flushes_in_threads(
    error: int, on_linux: None
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", CHILD, str(error)],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.stdout, done.stderr
    told = json.loads(done.stdout.splitlines()[-1])
    if "unfiltered" in told:
        pytest.skip(f"no filter of system calls can be set here: {told['unfiltered']}")
    assert told == {"refused": error, "works": False, "kind": LINUX, "offset": 0, "threads": 2}
