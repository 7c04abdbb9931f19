"""Running the service: where it listens, and how it stops."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import json
import signal
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

from lethe.errors import InputError, check_between, require

if TYPE_CHECKING:
    from starlette.applications import Starlette

SECONDS_TO_FINISH = 30
HEAD_SECONDS = 10.0
"""For the head of a request, however it trickles in."""
MOST_CONNECTIONS = 256
_BUSY = json.dumps({"error": "busy", "message": "too many connections; come again later."})


def check_place(
    host: str, port: int, certificate: Path | None, key: Path | None, behind_proxy: bool
) -> None:
    """Refuse to send tokens over a network in the clear.

    Raises:
        InputError: another host than this machine without a certificate, or half of a pair.
    """
    check_between("port", port, 0, 65535)
    if (certificate is None) != (key is None):
        raise InputError("certificate and key go together.")
    for file in (certificate, key):
        if file is not None and not file.is_file():
            raise InputError(f"{file} does not exist.")
    if not _is_here(host) and certificate is None and not behind_proxy:
        raise InputError(
            f"host={host!r} is reached from other machines, and tokens would travel in the clear: "
            "give --certificate and --key, or put a proxy with TLS in front and say "
            "--behind-proxy."
        )


def serve(
    app: Starlette, host: str, port: int, certificate: Path | None = None, key: Path | None = None
) -> None:
    """Listen until SIGINT or SIGTERM; what is being answered then is finished first.

    Args:
        app: of `lethe.queries.service.web.build`.
        host: name or address.
        port: 0 = any free one; uvicorn says which.
        certificate: PEM file.
        key: PEM file.
    """
    uvicorn = require("uvicorn", "serve")
    with _stoppable():
        uvicorn.run(
            app,
            host=host,
            port=port,
            ssl_certfile=certificate,
            ssl_keyfile=key,
            http=_protocol(MOST_CONNECTIONS, HEAD_SECONDS),
            ws="none",
            access_log=False,  # the audit log says more, and less about rows
            log_level="info",
            server_header=False,
            timeout_graceful_shutdown=SECONDS_TO_FINISH,
        )


def _protocol(most: int, seconds: float) -> type[asyncio.Protocol]:
    """uvicorn's HTTP/1.1 with what it lacks: a cap on connections and a time limit on heads."""
    from uvicorn.protocols.http.h11_impl import H11Protocol

    class Limited(H11Protocol):
        """A connection beyond `most` is refused at once; one without a request is closed."""

        _timer: asyncio.TimerHandle | None = None

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            if len(self.connections) > most:
                head = (
                    "HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/json\r\n"
                    f"content-length: {len(_BUSY)}\r\nretry-after: 10\r\nconnection: close"
                )
                transport.write(f"{head}\r\n\r\n{_BUSY}".encode())
                transport.close()
            else:
                self._watch()

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            self._watch()

        def connection_lost(self, error: Exception | None) -> None:
            self._stop()
            super().connection_lost(error)

        def _watch(self) -> None:
            if self.cycle is not None and not self.cycle.response_complete:
                self._stop()
            elif self._timer is None:
                self._timer = self.loop.call_later(seconds, self._late)

        def _late(self) -> None:
            self._timer = None
            if self.cycle is None or self.cycle.response_complete:
                self.transport.close()

        def _stop(self) -> None:
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None

    return Limited


class _Stopped(BaseException):
    """A signal ended the service, after its last answer."""


@contextlib.contextmanager
def _stoppable() -> Iterator[None]:
    """Go on after the block when a signal ended it: uvicorn finishes, then raises it again."""

    def stop(number: int, frame: FrameType | None) -> None:
        raise _Stopped

    before = {number: signal.signal(number, stop) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    except _Stopped:
        pass
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _is_here(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
