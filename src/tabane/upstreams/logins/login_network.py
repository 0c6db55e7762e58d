"""What requests of logins need of the hub. It is known before anybody logs in."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from tabane.messages import Message

    AddressFault = Callable[[str], Message | None]
    """Returns why an IP address is not public; None if it is."""


class LoginNetwork(Struct, frozen=True):
    """What requests of logins need of the hub: its environment, and its rule for addresses."""

    environment: Mapping[str, str]
    address_fault: AddressFault

    def __repr__(self) -> str:
        return "LoginNetwork()"
