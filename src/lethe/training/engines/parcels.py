"""Work sent far away: the job in one small parcel, its large arrays once for all jobs.

Made and opened by the same user's processes within one run, never read from another's file.
"""

from __future__ import annotations

import io
import os
import pickle
import sys
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lethe.errors import LetheError
from lethe.training.models import joblibs_cloudpickle

LARGE = 1 << 16
"""Bytes from which an array travels apart."""


@dataclass(frozen=True)
class Parcel:
    """A piece of work on its way."""

    paths: tuple[str, ...]  # where modules are imported from; as with the sender
    content: bytes  # the pickled function and job without their large arrays

    def carry_out(self, fetch: Callable[[Any], NDArray[Any]]) -> Any:
        """Open it and do the work; an error that is meant for the user is returned as it is.

        Args:
            fetch: gives the array that the sender's `keep` put away under a name.
        """
        sys.path.extend(path for path in self.paths if path not in sys.path)
        work, job = _Unpickler(io.BytesIO(self.content), fetch).load()
        try:
            return work(job)
        except LetheError as error:
            return error


class Sender:
    """Makes parcels whose large arrays are put away once each.

    Args:
        keep: puts an array where the workers can fetch it; returns its name there.
    """

    def __init__(self, keep: Callable[[NDArray[Any]], Hashable]) -> None:
        self._keep = keep
        # The arrays are held as well: the id of a freed one could be given to another.
        self._kept: dict[int, tuple[NDArray[Any], Hashable]] = {}

    def parcel(self, work: Callable[[Any], Any], job: Any) -> Parcel:
        """Pack a function and its argument."""

        def persistent_id(pickler: Any, found: Any) -> Hashable | None:
            if type(found) is not np.ndarray or found.nbytes < LARGE or found.dtype.hasobject:
                return None
            return self._name(found)

        # Which cloudpickle joblib brings is known at run time only.
        base = joblibs_cloudpickle().Pickler
        kind: Any = type("Pickler", (base,), {"persistent_id": persistent_id})
        file = io.BytesIO()
        kind(file).dump((work, job))
        return Parcel(tuple(path or os.getcwd() for path in sys.path), file.getvalue())

    def _name(self, array: NDArray[Any]) -> Hashable:
        if id(array) not in self._kept:
            self._kept[id(array)] = array, self._keep(array)
        return self._kept[id(array)][1]


class _Unpickler(pickle.Unpickler):
    def __init__(self, file: io.BytesIO, fetch: Callable[[Any], NDArray[Any]]) -> None:
        super().__init__(file)
        self._fetch = fetch

    def persistent_load(self, name: Any) -> NDArray[Any]:
        return self._fetch(name)
