"""The labels of Tabane's own operations, by name.

Posts and documents are the user's own. Pages are written by strangers, and the address of a page can carry
data out. Operations that save documents are no sinks: a document keeps the labels of what its writer had
read.
"""

from __future__ import annotations

from tabane.operations import CallTarget
from tabane.servers.labels import DESTRUCTIVE, EXTERNAL, NO_LABELS, PRIVATE, UNTRUSTED, CallLabels

_PRIVATE = (
    "search_similar", "search_posts_by_text", "get_user_stats", "get_status", "get_post", "get_user_list",
    "get_related_posts", "get_timeline", "get_post_facets", "vector_search", "export_posts", "find_posts",
    "list_posts", "list_post_users", "list_post_tags", "suggest_users",
    "search_documents", "get_document", "get_documents_by_prefix", "list_documents", "list_document_folders",
    "search_everything", "query_audit_logs", "list_live_calls", "show_live_call", "server_logs", "put_file",
)  # fmt: skip
FETCHING = ("read_url_content", "remember_url")
"""Operations that read the page at ``url``."""

_PAGES = ("list_pages",)
_DESTRUCTIVE = (
    "delete_document", "remove_server", "add_server", "change_server", "enable_server", "keep_server",
    "try_server", "set_tool_visibility", "logout_server", "change_setting", "save_profile", "remove_profile",
    "apply_fix",
    "keys_create", "keys_update", "keys_revoke", "sign_in_link", "unwatch_documents", "stop_server",
    "watch_documents", "add_documents",
)  # fmt: skip

OWN_LABELS = {
    **dict.fromkeys(_PRIVATE, PRIVATE),
    **dict.fromkeys(FETCHING, UNTRUSTED | EXTERNAL),
    **dict.fromkeys(_PAGES, UNTRUSTED),
    **dict.fromkeys(_DESTRUCTIVE, DESTRUCTIVE),
}


def labels_of_operation(target: CallTarget) -> CallLabels:
    """Return the labels of an operation. Pages and labeled documents in a result add theirs when read."""
    return NO_LABELS.with_labels(OWN_LABELS.get(target.name, 0), "built-in")
