"""A program beside the load generator, which speaks neither TLS nor SASL: bytes that come at its
port go to a broker, after a handshake and a login.

python -m bench.doorman HOST:PORT [--authority FILE] [--user NAME --password TEXT]     prints its
    port
"""

import argparse
import asyncio
import ssl
import sys
from collections.abc import Awaitable, Callable

from raftka.wire.frame import decode_response_header, encode_request
from raftka.wire.messages.sasl import SASL_AUTHENTICATE, SASL_HANDSHAKE
from raftka.wire.schema import Api, Req, Resp

PIECE_BYTES = 256 * 1024
CLIENT_ID = "doorman"


async def ask(
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    api: Api[Req, Resp],
    request: Req,
    version: int,
) -> Resp:
    writer.write(encode_request(api, version, 1, CLIENT_ID, request))
    size = int.from_bytes(await reader.readexactly(4))
    frame = memoryview(await reader.readexactly(size))
    _, position = decode_response_header(frame, api, version)
    answer, _ = api.decode_response(version, frame, position)
    return answer


async def log_in(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, user: str, password: str
) -> None:
    """By PLAIN. Raises ConnectionRefusedError."""
    answer = await ask(reader, writer, SASL_HANDSHAKE, SASL_HANDSHAKE.request(mechanism="PLAIN"), 1)
    if not answer.error_code:
        token = SASL_AUTHENTICATE.request(auth_bytes=f"\0{user}\0{password}".encode())
        if not (await ask(reader, writer, SASL_AUTHENTICATE, token, 1)).error_code:
            return
    raise ConnectionRefusedError(f"{user} is not let in")


async def splice(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(PIECE_BYTES):
        writer.write(data)
        await writer.drain()
    writer.close()


def door(
    options: argparse.Namespace,
) -> Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]:
    host, _, port = options.broker.rpartition(":")
    context = ssl.create_default_context(cafile=options.authority) if options.authority else None

    served: set[asyncio.Task[None] | None] = set()  # asyncio itself would forget them

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        served.add(asyncio.current_task())
        there = await asyncio.open_connection(host, int(port), ssl=context, limit=PIECE_BYTES)
        if options.user:
            await log_in(*there, options.user, options.password)
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(splice(reader, there[1]))
                tasks.create_task(splice(there[0], writer))
        except* OSError:
            pass  # one side has gone, so both go
        finally:
            there[1].close()
            writer.close()
            served.discard(asyncio.current_task())

    return serve


async def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("broker", metavar="HOST:PORT")
    parser.add_argument("--authority", metavar="FILE", default="")
    parser.add_argument("--user", default="")
    parser.add_argument("--password", default="")
    server = await asyncio.start_server(
        door(parser.parse_args()), "127.0.0.1", 0, limit=PIECE_BYTES
    )
    print(server.sockets[0].getsockname()[1], flush=True)
    # until the bench is gone
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(main())
