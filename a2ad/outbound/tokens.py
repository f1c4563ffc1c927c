"""Bearer tokens for remotes, set at run time: in one file that only the daemon's user can read."""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Mapping
from pathlib import Path

import structlog

from a2ad.errors import StartupError, StoreUnavailable

FILE = "outbound-tokens.json"

log = structlog.get_logger()


class TokenFile:
    """Tokens by connection id. What it holds goes into requests and nowhere else."""

    def __init__(self, state_dir: Path) -> None:
        self._path = state_dir / FILE
        self._tokens: dict[str, str] = {}

    def load(self, known: Collection[str]) -> None:
        """Read the tokens of the connections that there are. Raises `StartupError` for a file that cannot be used."""
        try:
            tokens = json.loads(self._path.read_text())
            if not isinstance(tokens, dict) or not all(isinstance(token, str) for token in tokens.values()):
                raise ValueError("it is no object of strings")
            self._path.chmod(0o600)
        except FileNotFoundError:
            return
        except (OSError, ValueError) as error:
            # the error of a JSON parser quotes nothing of the text
            raise StartupError(f"the tokens in {self._path} cannot be read: {error}") from None
        self._tokens = {key: token for key, token in tokens.items() if key in known}
        if self._tokens != tokens:  # of a connection that was removed as the daemon ended
            try:
                self._write(self._tokens)
            except OSError as error:
                log.warning("outbound.tokens_not_tidied", error=error.strerror)

    def get(self, connection_id: str) -> str | None:
        return self._tokens.get(connection_id)

    def set(self, connection_id: str, token: str | None) -> None:
        """Keep a token, or forget it: durable once this returns. Raises `StoreUnavailable`."""
        tokens = {key: value for key, value in self._tokens.items() if key != connection_id}
        if token:
            tokens[connection_id] = token
        if tokens == self._tokens:
            return
        try:
            self._write(tokens)
        except OSError as error:
            raise StoreUnavailable(f"the token could not be kept: {error.strerror}") from None
        self._tokens = tokens

    def _write(self, tokens: Mapping[str, str]) -> None:
        draft = self._path.with_suffix(".new")
        draft.unlink(missing_ok=True)
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "w") as file:
            json.dump(tokens, file)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(self._path)
        folder = os.open(self._path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
