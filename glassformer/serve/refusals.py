"""The end of connections: each client gets the time to read the last response."""

from __future__ import annotations

import contextlib
import socket
import threading
import time

LINGER_SECONDS = 2.0  # that a client has to read its last response
MAX_LINGERING = 2000
POLL_SECONDS = 0.02
CHUNK = 2**20


class Refusals:
    """Closes connections that may hold an unread request, all in one thread.

    A connection that is closed with unread data is reset, and its client may never see the response. So what it sends
    is read and discarded until it has closed its side, for a bounded time.
    """

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.lingering: dict[socket.socket, float] = {}  # and when to close them
        self.thread: threading.Thread | None = None

    def add(self, connection: socket.socket, response: bytes = b"") -> None:
        """Send a response, which must fit into the buffer of a new connection, and close it when the client has."""
        with contextlib.suppress(OSError):
            connection.settimeout(0)
            connection.send(response)
            connection.shutdown(socket.SHUT_WR)
        if is_closed(connection):
            connection.close()
            return
        with self.lock:
            self.lingering[connection] = time.monotonic() + LINGER_SECONDS
            if len(self.lingering) > MAX_LINGERING:
                self._close(next(iter(self.lingering)))
            if self.thread is None:
                self.thread = threading.Thread(target=self._close_all, daemon=True)
                self.thread.start()

    def wait(self) -> None:
        """Return when all connections are closed."""
        thread = self.thread
        if thread is not None:
            thread.join()

    def _close_all(self) -> None:
        while True:
            with self.lock:
                now = time.monotonic()
                for connection, deadline in list(self.lingering.items()):
                    if deadline <= now or is_closed(connection):
                        self._close(connection)
                if not self.lingering:
                    self.thread = None
                    return
            time.sleep(POLL_SECONDS)

    def _close(self, connection: socket.socket) -> None:
        del self.lingering[connection]
        connection.close()


def is_closed(connection: socket.socket) -> bool:
    """Whether the client has closed its side; what it sent is discarded."""
    try:
        return not connection.recv(CHUNK)
    except BlockingIOError:
        return False
    except OSError:
        return True
