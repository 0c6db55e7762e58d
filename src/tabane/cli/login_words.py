"""The state of a login at a server, in words."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from tabane.messages import Message, say


def login_words(login: Mapping[str, Any] | None) -> Message | None:
    """Return the state of a login with the time of its end; None for a server that is used without one."""
    if not login:
        return None
    expires = login.get("expires")
    if login["state"] == "signed_in" and login.get("renewable"):
        return say("logged in; renewed without you")
    if login["state"] == "signed_in" and expires:
        return say("logged in until {until}", until=time.strftime("%Y-%m-%d %H:%M", time.localtime(expires)))
    return _STATES.get(login["state"])


_STATES = {
    "needed": say("required"),
    "waiting": say("waits for you"),
    "signed_in": say("logged in"),
    "failed": say("failed"),
}
