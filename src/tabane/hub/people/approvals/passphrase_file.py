"""The file of the passphrase: ``passphrase.json`` in the home, mode 0600."""

from __future__ import annotations

from pathlib import Path

import msgspec

from tabane.access.passphrase import PassphraseRecord
from tabane.errors import ConfigurationError
from tabane.messages import say
from tabane.settings.files import read_private

PASSPHRASE = "passphrase.json"
"""The name of the file."""


def read_passphrase(home: Path) -> PassphraseRecord:
    """Return what is kept of the passphrase of a home. Raises ConfigurationError if that cannot be used."""
    path = home / PASSPHRASE
    try:
        return msgspec.json.decode(read_private(path), type=PassphraseRecord)
    except FileNotFoundError:
        raise ConfigurationError(say("No passphrase is set. Set one with: tabane passphrase set")) from None
    except msgspec.DecodeError:
        raise ConfigurationError(
            say("{path} is damaged. Delete it to remove the passphrase.", path=path)
        ) from None
