"""Bearer tokens: shown once, kept as hashes, compared in constant time.

A token is 256 random bits, so that one SHA-256 of it is as hard to invert as it is to guess; slow
hashes are for secrets that people choose.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import re
import secrets
from collections.abc import Mapping
from pathlib import Path

from lethe.errors import InputError
from lethe.files import write_whole

_PREFIX = "lethe_"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,99}")
_HASH = re.compile(r"[0-9a-f]{64}")


class Tokens:
    """The analysts who may ask, by the hashes of their tokens.

    Attributes:
        hashes: analyst -> SHA-256 of the token, hexadecimal.
    """

    def __init__(self, hashes: Mapping[str, str]) -> None:
        self.hashes = dict(hashes)

    @staticmethod
    def load(path: Path) -> Tokens:
        """Read a file that `save` wrote.

        Raises:
            InputError: it cannot be read, or is no such file.
        """
        try:
            found = json.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise InputError(
                f"{path} does not exist. Make a token first: lethe token NAME --tokens {path}"
            ) from None
        except (OSError, ValueError) as error:
            raise InputError(f"{path} cannot be read as tokens: {error}.") from error
        hashes = found.get("sha256") if isinstance(found, dict) else None
        if not isinstance(hashes, dict) or not all(
            isinstance(one, str) and _HASH.fullmatch(one) for one in hashes.values()
        ):
            raise InputError(f"{path} holds no tokens. `lethe token NAME --tokens FILE` writes it.")
        for analyst in hashes:
            check_analyst(analyst)
        return Tokens(hashes)

    def save(self, path: Path) -> None:
        """Write it, readable by its owner alone."""
        text = json.dumps({"sha256": dict(sorted(self.hashes.items()))}, indent=1) + "\n"
        write_whole(path, text.encode())
        path.chmod(0o600)

    def issue(self, analyst: str) -> str:
        """A new token for an analyst; an earlier one ends.

        Returns:
            The token, to be handed over once: it cannot be read back from its hash.
        """
        check_analyst(analyst)
        token = _PREFIX + secrets.token_urlsafe(32)
        self.hashes[analyst] = _hash(token)
        return token

    def analyst_of(self, token: str) -> str | None:
        """Whose token it is; None if nobody's. All hashes are compared, whoever it is."""
        given, found = _hash(token), None
        for analyst, known in self.hashes.items():
            if hmac.compare_digest(given, known):
                found = analyst
        return found


def check_analyst(name: str) -> str:
    """Return a name that can stand in a ledger, a log and a URL.

    Raises:
        InputError: it cannot.
    """
    if not _NAME.fullmatch(name):
        raise InputError(
            f"analyst={name[:100]!r} must be 1 to 100 letters, digits or . _ @ -, and begin with a "
            "letter or digit."
        )
    return name


def _hash(token: str) -> str:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()
