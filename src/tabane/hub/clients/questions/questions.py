"""Questions of a hub, put together: the open ones, parked calls, and the operations."""

from __future__ import annotations

import logging
import os
from collections.abc import Awaitable, Callable
from pathlib import Path

from tabane.errors import ConfigurationError
from tabane.hub.clients.questions.handles import KEY_BYTES, HandleSigner
from tabane.hub.clients.questions.open_questions import MOST_LISTED, OpenQuestions
from tabane.hub.clients.questions.parked_files import ParkedFiles
from tabane.hub.clients.questions.parking import ParkedCalls
from tabane.operations import Operation
from tabane.settings.files import read_trusted, write_private
from tabane.upstreams.adopted_call import AdoptedCall
from tabane.wire.questions import ON_PAGE, Question

log = logging.getLogger(__name__)

KEY_FILE = "questions.key"


class HubQuestions:
    """The questions of servers to the clients of a hub.

    ``adopt`` connects to a server for a call of an earlier hub. ``to_page`` says whether a person answers on
    the web page what a client cannot be asked. ``login_waits`` counts requests that wait for logins.
    """

    def __init__(
        self,
        home: Path,
        to_page: Callable[[], bool],
        adopt: Callable[[str, str], Awaitable[AdoptedCall]],
    ) -> None:
        self._home, self.to_page = home, to_page
        self.open = OpenQuestions()
        self.login_waits = 0
        self._signer: HandleSigner | None = None
        self.parked = ParkedCalls(self.signer, self.open, self.takes, ParkedFiles(home), adopt)

    def table(self) -> list[Operation]:
        from tabane.hub.clients.questions.operations import QuestionOperations

        return QuestionOperations(self.open).table()

    def takes(self, question: Question) -> bool:
        """Return whether a person can answer a question that the client cannot be asked."""
        return question.kind in ON_PAGE and self.to_page() and len(self.open) < MOST_LISTED

    def signer(self) -> HandleSigner:
        """Return what signs handles. Its key is made once, and kept in the home."""
        if self._signer is None:
            self._signer = HandleSigner(self._key())
        return self._signer

    def _key(self) -> bytes:
        path = self._home / KEY_FILE
        try:
            key = bytes.fromhex(read_trusted(path).decode("ascii", "replace").strip())
            if len(key) == KEY_BYTES:
                return key
        except (FileNotFoundError, ConfigurationError, ValueError):
            pass
        key = os.urandom(KEY_BYTES)
        try:
            write_private(path, key.hex().encode() + b"\n")
        except OSError as error:
            log.warning(
                "%s cannot be written (%s): parked calls do not outlive the hub", path, error.strerror
            )
        return key
