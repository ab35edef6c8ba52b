"""A peer on the kernel's own MPTCP (or TCP) sockets, for what curl cannot do.

peer.py serve FOLDER    HTTP/1.1 server: GET, HEAD and PUT of files
peer.py get URL FILE    HTTP/1.1 client that may stop reading for a while, or go away

--abort-after BYTES     close without having read or sent the rest: MP_FASTCLOSE (RST for TCP)
"""

import argparse
import http.server
import os
import socket
import struct
import sys
import time
import urllib.parse

IPPROTO_MPTCP = 262
BLOCK = 1 << 16


def abort(connection):
    """Closes at once, without lingering."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()


class Handler(http.server.SimpleHTTPRequestHandler):
    """Files of a folder, and PUT into it."""

    protocol_version = "HTTP/1.1"
    abort_after = None

    def do_PUT(self):
        left = int(self.headers["Content-Length"])
        with open(self.translate_path(self.path), "wb") as file:
            while left:
                data = self.rfile.read(min(left, BLOCK))
                if not data:
                    return
                file.write(data)
                left -= len(data)
        self.send_response(201)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def copyfile(self, source, outputfile):
        sent = 0
        while data := source.read(BLOCK):
            if self.abort_after is not None and sent >= self.abort_after:
                abort(self.connection)
                print(f"aborted after {sent}", flush=True)
                self.close_connection = True
                return
            outputfile.write(data)
            sent += len(data)

    def finish(self):
        try:
            super().finish()
        except OSError:
            pass  # aborted


class Server(http.server.ThreadingHTTPServer):
    """Listens on every address of both families."""

    daemon_threads = True

    def __init__(self, protocol, port, handler):
        super().__init__(("::", port), handler, bind_and_activate=False)
        self.socket.close()
        self.socket = socket.socket(socket.AF_INET6, socket.SOCK_STREAM, protocol)
        self.socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(("::", port))
        self.server_name, self.server_port = "peer", port
        self.server_activate()

    def handle_error(self, request, client_address):
        print(f"connection ended: {sys.exc_info()[1]!r}", flush=True)


def serve(options, protocol):
    folder = os.path.abspath(options.folder)
    Handler.abort_after = options.abort_after

    def handler(*args):
        return Handler(*args, directory=folder)

    server = Server(protocol, options.port, handler)
    print(f"serving {folder} at port {options.port}", flush=True)
    server.serve_forever()


def get(options, protocol):
    url = urllib.parse.urlsplit(options.url)
    family = socket.AF_INET6 if ":" in url.hostname else socket.AF_INET
    connection = socket.socket(family, socket.SOCK_STREAM, protocol)
    connection.connect((url.hostname, url.port))
    request = f"GET {url.path} HTTP/1.1\r\nHost: {url.netloc}\r\nConnection: close\r\n\r\n"
    connection.sendall(request.encode())
    head = b""
    while b"\r\n\r\n" not in head:
        data = connection.recv(BLOCK)
        if not data:
            sys.exit(f"no answer: {head!r}")
        head += data
    head, body = head.split(b"\r\n\r\n", 1)
    if b" 200 " not in head.split(b"\r\n")[0]:
        sys.exit(f"refused: {head!r}")
    lengths = [line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
    length = int(lengths[0].split(b":")[1])
    got = len(body)
    paused = options.pause_after is None
    with open(options.file, "wb") as file:
        file.write(body)
        while got < length:
            if not paused and got >= options.pause_after:
                print(f"paused at {got}", flush=True)
                time.sleep(options.pause)
                print("reads again", flush=True)
                paused = True
            if options.abort_after is not None and got >= options.abort_after:
                abort(connection)
                print(f"aborted after {got}", flush=True)
                return
            data = connection.recv(BLOCK)
            if not data:
                sys.exit(f"ended after {got} of {length} bytes")
            file.write(data)
            got += len(data)


def main():
    parser = argparse.ArgumentParser()
    verbs = parser.add_subparsers(dest="verb", required=True)
    verb = verbs.add_parser("serve")
    verb.add_argument("folder")
    verb.add_argument("--port", type=int, default=8080)
    verb.set_defaults(run=serve)
    verb = verbs.add_parser("get")
    verb.add_argument("url")
    verb.add_argument("file")
    verb.add_argument("--pause-after", type=int)
    verb.add_argument("--pause", type=float, default=10)
    verb.set_defaults(run=get)
    for verb in verbs.choices.values():
        verb.add_argument("--tcp", action="store_true")
        verb.add_argument("--abort-after", type=int)
    options = parser.parse_args()
    return options.run(options, 0 if options.tcp else IPPROTO_MPTCP)


if __name__ == "__main__":
    sys.exit(main())
