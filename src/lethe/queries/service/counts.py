"""Request counts for Prometheus: sums over all analysts, for the keeper alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lethe.errors import InputError, require


class RequestCounts:
    """Counts of requests by operation and status; holds no analyst, question or answer."""

    def __init__(self) -> None:
        prometheus: Any = require("prometheus_client", "serve")
        self._start = prometheus.start_http_server
        self._registry = prometheus.CollectorRegistry()
        labels = ["request", "status"]
        self._requests = prometheus.Counter(
            "lethe_requests", "Requests by their end.", labels, registry=self._registry
        )
        self._seconds = prometheus.Summary(
            "lethe_request_seconds", "Time to the answer.", ["request"], registry=self._registry
        )

    def count(self, request: str, status: int, seconds: float) -> None:
        """Note a request by its name in `REQUESTS`."""
        self._requests.labels(request, str(status)).inc()
        self._seconds.labels(request).observe(seconds)

    def listen(self, port: int) -> Callable[[], None]:
        """Answer scrapes at http://127.0.0.1:PORT/metrics; returns how to end it.

        Raises InputError: the port is taken.
        """
        try:
            server, thread = self._start(port, addr="127.0.0.1", registry=self._registry)
        except OSError as error:
            raise InputError(
                f"metrics_port={port} cannot be listened at: {error.strerror}. Name another."
            ) from error

        def stop() -> None:
            server.shutdown()
            server.server_close()
            thread.join()

        return stop
