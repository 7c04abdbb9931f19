"""Running the service: where it listens, and how it stops."""

from __future__ import annotations

import contextlib
import ipaddress
import signal
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

from lethe.errors import InputError, check_between, require

if TYPE_CHECKING:
    from starlette.applications import Starlette

SECONDS_TO_FINISH = 30


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
            access_log=False,  # the trail says more, and less about rows
            log_level="info",
            server_header=False,
            timeout_graceful_shutdown=SECONDS_TO_FINISH,
        )


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
