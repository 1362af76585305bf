"""A NATS server that grants IDs itself, and records what it is sent."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
from collections.abc import Callable

from installation import eventually


class Connection:
    """A client's connection, as the server sees it."""

    def __init__(self, server: Server, sock: socket.socket) -> None:
        self.received = b""
        self.ended = False
        self.login: dict[str, object] = {}
        self._server = server
        self._sock = sock
        self._subscriptions: dict[str, str] = {}  # IDs by subject without the *

    def serve(self) -> None:
        """Serve until the end of the connection."""
        self.send(b'INFO {"server_id":"s","version":"2.11.0","max_payload":1048576,"headers":true}\r\n')
        lines = self._sock.makefile("rb")
        try:
            for line in lines:
                self.received += line
                words = line.split()
                if words[0] == b"CONNECT":
                    self.login = json.loads(line[len(b"CONNECT ") :])
                    if self.login.get("pass") == "wrong":
                        self.send(b"-ERR 'Authorization Violation'\r\n")
                        break
                elif words[0] == b"PING":
                    self.send(b"PONG\r\n")
                elif words[0] == b"SUB":
                    self._subscriptions[words[1].decode().removesuffix("*")] = words[2].decode()
                elif words[0] in (b"PUB", b"HPUB"):
                    body = lines.read(int(words[-1]) + 2)
                    self.received += body
                    if words[0] == b"HPUB":
                        body = body[int(words[-2]) :]
                    self._server.request(
                        Request(self, words[1].decode(), words[2].decode(), int(body.strip() or b"1"))
                    )
        except OSError:
            pass
        finally:
            self.ended = True
            self._sock.close()

    def send(self, data: bytes) -> None:
        """Send bytes to the client, if it is still there."""
        with contextlib.suppress(OSError):
            self._sock.sendall(data)

    def deliver(self, subject: str, body: bytes, headers: bytes = b"") -> None:
        """Send a message to who subscribed to its subject."""
        for prefix, id in self._subscriptions.items():
            if subject.startswith(prefix):
                verb, sizes = (b"HMSG", b"%d " % len(headers)) if headers else (b"MSG", b"")
                head = b"%s %s %s %s%d" % (verb, subject.encode(), id.encode(), sizes, len(headers + body))
                self.send(head + b"\r\n" + headers + body + b"\r\n")

    def cut(self) -> None:
        """End the connection as a broken link does."""
        with contextlib.suppress(OSError):
            self._sock.shutdown(socket.SHUT_RDWR)


class Request:
    """A request for n IDs."""

    def __init__(self, connection: Connection, subject: str, reply: str, n: int) -> None:
        self.connection = connection
        self.subject = subject
        self.reply = reply
        self.n = n

    def refuse(self, code: int, text: str) -> None:
        """Reply with an error."""
        headers = f"NATS/1.0\r\nNats-Service-Error-Code: {code}\r\nNats-Service-Error: {text}\r\n\r\n"
        self.connection.deliver(self.reply, b"", headers.encode())


class Server:
    """A NATS server with one responder for all subjects. It grants ascending IDs, each once."""

    def __init__(self, port: int = 0) -> None:
        self.connections: list[Connection] = []
        self.requests: list[Request] = []
        self.granted = 0
        """The last ID granted."""
        self.respond: Callable[[Request], None] = self.grant
        self._lock = threading.Lock()
        self._listener = socket.create_server(("127.0.0.1", port))
        self.url = f"nats://127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def grant(self, request: Request) -> None:
        """Reply with fresh IDs."""
        with self._lock:
            first, self.granted = self.granted + 1, self.granted + request.n
            last = self.granted
        request.connection.deliver(
            request.reply, b"%d" % first if first == last else b"%d-%d" % (first, last)
        )

    def silent(self, request: Request) -> None:
        """Do not reply."""

    def request(self, request: Request) -> None:
        self.requests.append(request)
        self.respond(request)

    def await_requests(self, n: int) -> None:
        """Wait until so many requests have arrived in all."""
        eventually(f"{n} requests", lambda: len(self.requests) >= n)

    def close(self) -> None:
        """End all connections."""
        self._listener.close()
        for connection in self.connections:
            connection.cut()

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _accept(self) -> None:
        while True:
            try:
                sock, _ = self._listener.accept()
            except OSError:
                return
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connection = Connection(self, sock)
            self.connections.append(connection)
            threading.Thread(target=connection.serve, daemon=True).start()
