"""The hub's own tools that are of use: those that have something to work on."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tabane import documents, posts
from tabane.hub.people.access import HubAccess
from tabane.hub.stores.domain_stores import Stores
from tabane.reader import page_domain

LIMITS = "limits"
"""The limits of callers as something that tools work on."""

Holds = Callable[[str], bool]
"""Returns whether there is anything of a domain (or of the limits), without opening its store."""

_POSTS, _DOCUMENTS = (posts.DOMAIN,), (documents.DOMAIN,)

_NEEDED: Mapping[str, tuple[str, ...]] = {
    "search_similar": _POSTS,
    "search_posts_by_text": _POSTS,
    "get_user_stats": _POSTS,
    "get_database_stats": _POSTS,
    "suggest_users": _POSTS,
    "get_post": _POSTS,
    "delete_document": _DOCUMENTS,
    "search_documents": _DOCUMENTS,
    "get_document": _DOCUMENTS,
    "list_documents": _DOCUMENTS,
    "get_document_stats": _DOCUMENTS,
    "search_everything": (posts.DOMAIN, documents.DOMAIN, page_domain.DOMAIN),
    "get_rate_limit_stats": (LIMITS,),
}
"""The data of a tool, any of these. Tools that add something, such as put_document, need nothing."""

_DOMAINS = frozenset(domain for needed in _NEEDED.values() for domain in needed)

_NEVER = frozenset(
    {
        "hello", "get_status", "embed_text", "put_documents", "get_documents_by_prefix",
        "read_resource", "get_prompt",
    }
)  # fmt: skip
"""Tools for programs that know them by name. A model has a better one for each request of a user.

The last two are named by the search that finds resources and prompts.
"""


def held(domain: str, stores: Stores, limits: HubAccess) -> bool:
    """Return whether there is anything of a domain, or for :data:`LIMITS`, any limit."""
    return limits.limiting if domain == LIMITS else stores.holds(domain)


def idle(names: frozenset[str], holds: Holds) -> frozenset[str]:
    """Return the own tools that a search leaves out now. They can still be called and described."""
    held = {domain for domain in _DOMAINS if holds(domain)}
    return names & (_NEVER | {name for name, needed in _NEEDED.items() if held.isdisjoint(needed)})
