"""The routes of all pages."""

from __future__ import annotations

from tabane.web.page import PageRoute
from tabane.web.pages import (
    activity,
    approvals,
    audit,
    changes,
    documents,
    flows,
    health,
    home,
    jobs,
    keys,
    models,
    palette,
    posts,
    posts_import,
    preferences,
    profiles,
    questions,
    reader,
    search,
    servers,
    settings,
    tool_apps,
    tools,
    usage,
)

AREAS = (
    home,
    search,
    activity,
    questions,
    changes,
    approvals,
    flows,
    servers,
    tool_apps,
    tools,
    posts_import,
    posts,
    documents,
    reader,
    jobs,
    usage,
    audit,
    keys,
    profiles,
    models,
    settings,
    health,
    preferences,
    palette,
)
"""The modules with pages, in the order in which their routes are tried."""


def page_routes() -> tuple[PageRoute, ...]:
    """Return the routes of all areas."""
    return tuple(route for area in AREAS for route in area.ROUTES)
