"""Transfers in both directions at once, as the kernel's mptcp_connect makes them.

both.py serve ADDRESS...              listens there, at port 7000
both.py run ADDRESS BYTES COUNT       sends and receives so much, COUNT times

--parallel N    so many at a time
--mptcp         by MPTCP
--stall S       seconds without a byte in either direction after which a transfer hangs

Prints a line of JSON: how many were done, hung, failed, and how long they took.
"""

import argparse
import concurrent.futures
import hashlib
import json
import random
import socket
import struct
import sys
import threading
import time

IPPROTO_MPTCP = 262
PORT = 7000
BLOCK = 1 << 16


def blocks(seed, length):
    """Bytes that only the seed and the length say."""
    block = random.Random(seed).randbytes(BLOCK)
    while length > 0:
        yield block[:length]
        length -= BLOCK


def digest(seed, length):
    sha = hashlib.sha256()
    for block in blocks(seed, length):
        sha.update(block)
    return sha.digest()


def send(connection, seed, length):
    for block in blocks(seed, length):
        connection.sendall(block)


def receive(connection, length):
    sha = hashlib.sha256()
    while length > 0:
        data = connection.recv(min(length, BLOCK))
        if not data:
            raise ConnectionError(f"ended {length} bytes early")
        sha.update(data)
        length -= len(data)
    return sha.digest()


def serve_one(connection):
    with connection:
        seed, length = struct.unpack("!QQ", connection.recv(16, socket.MSG_WAITALL))
        sender = threading.Thread(target=send, args=(connection, seed + 1, length))
        sender.start()
        got = receive(connection, length)
        sender.join()
        connection.sendall(got)
        connection.shutdown(socket.SHUT_WR)
        connection.recv(1)


def serve(address):
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    listener = socket.create_server((address, PORT), family=family, backlog=256)
    while True:
        connection, _ = listener.accept()
        threading.Thread(target=serve_one, args=(connection,), daemon=True).start()


def transfer(options, number):
    """One transfer: how many seconds it took, or what went wrong."""
    begin = time.monotonic()
    family = socket.AF_INET6 if ":" in options.address else socket.AF_INET
    protocol = IPPROTO_MPTCP if options.mptcp else 0
    with socket.socket(family, socket.SOCK_STREAM, protocol) as connection:
        connection.settimeout(options.stall)
        try:
            connection.connect((options.address, PORT))
            connection.sendall(struct.pack("!QQ", number, options.bytes))
            failure = []

            def sending():
                try:
                    send(connection, number, options.bytes)
                except OSError as error:
                    failure.append(error)

            sender = threading.Thread(target=sending)
            sender.start()
            try:
                got = receive(connection, options.bytes)
            finally:
                sender.join()
            if failure:
                raise failure[0]
            theirs = connection.recv(32, socket.MSG_WAITALL)
        except TimeoutError:
            return "hung"
        except OSError as error:
            return f"failed: {error}"
    if got != digest(number + 1, options.bytes) or theirs != digest(number, options.bytes):
        return "failed: other bytes"
    return time.monotonic() - begin


def run(options):
    with concurrent.futures.ThreadPoolExecutor(options.parallel) as pool:
        results = list(pool.map(lambda n: transfer(options, n), range(options.count)))
    seconds = [result for result in results if isinstance(result, float)]
    failures = [result for result in results if isinstance(result, str) and result != "hung"]
    hung = results.count("hung")
    report = {"done": len(seconds), "hung": hung, "failed": failures[:5]}
    report["longest_s"] = max(seconds, default=0)
    report["mean_s"] = sum(seconds) / max(len(seconds), 1)
    print(json.dumps(report), flush=True)
    sys.exit(0 if len(seconds) == options.count else 1)


def main():
    parser = argparse.ArgumentParser()
    verbs = parser.add_subparsers(dest="verb", required=True)
    verbs.add_parser("serve").add_argument("address", nargs="+")
    client = verbs.add_parser("run")
    client.add_argument("address")
    client.add_argument("bytes", type=int)
    client.add_argument("count", type=int)
    client.add_argument("--parallel", type=int, default=1)
    client.add_argument("--mptcp", action="store_true")
    client.add_argument("--stall", type=float, default=60)
    options = parser.parse_args()
    if options.verb == "run":
        return run(options)
    for address in options.address:
        threading.Thread(target=serve, args=(address,), daemon=True).start()
    print("Serving", flush=True)
    threading.Event().wait()


main()
