"""A process that stands in for the console's: answers each connection with what it was told, for
tests of the door. The order says what it does:

`connections`: it ends after so many. `fail`: it ends at once, with this text. `deaf`: it does not
notice the end of its owner.
"""

import json
import os
import select
import socket
import sys

from raftka.console.door import follow_door


def main() -> int:
    order, has_ended = follow_door(0)
    if "fail" in order:
        print(order["fail"], file=sys.stderr)
        return 3
    listener = socket.socket(fileno=int(sys.argv[1]))
    served = 0
    while order.get("deaf") or not has_ended(0):
        watched = [listener.fileno(), *([] if order.get("deaf") else [0])]
        ready, _, _ = select.select(watched, [], [])
        if listener.fileno() in ready:
            sock, _ = listener.accept()
            with sock:
                sock.sendall(json.dumps({"pid": os.getpid(), "order": order}).encode())
            served += 1
            if served == order.get("connections"):
                return 0
    return 0


if __name__ == "__main__":
    sys.exit(main())
