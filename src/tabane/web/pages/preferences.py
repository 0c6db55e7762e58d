"""Preferences of the person in this browser: language and theme, which the browser keeps, and sign-out."""

from __future__ import annotations

from tabane.messages import say
from tabane.web.page import PageRequest, PageRoute, WholePage


async def preferences(request: PageRequest) -> WholePage:
    """Show the preferences."""
    return WholePage(
        "layout/preferences.html",
        say("Preferences"),
        {"who": request.access.label or request.access.holder},
        module="preferences",
    )


ROUTES = (PageRoute("/preferences", preferences),)
