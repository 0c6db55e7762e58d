"""Operations of Tabane and events of its audit log in words, as the pages name them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tabane.messages import Message, say

NAMES: Mapping[str, Message] = {
    "accept_definitions": say("Accept changed definitions"),
    "add_documents": say("Add documents"),
    "add_server": say("Add a server"),
    "allow_flow": say("Allow a flow of data"),
    "answer_question": say("Answer a question"),
    "apply_fix": say("Fix a problem"),
    "approve_call": say("Approve a call"),
    "call_readonly_tool": say("Call a read-only tool"),
    "call_tool": say("Call a tool"),
    "cancel_job": say("Cancel a job"),
    "cancel_task": say("Cancel a task"),
    "change_server": say("Change a server"),
    "change_setting": say("Change a setting"),
    "check_servers": say("Check the servers"),
    "check_stores": say("Check the stored data"),
    "credentials": say("Credentials were found"),
    "definitions_changed": say("Definitions changed"),
    "delete_document": say("Delete a document"),
    "describe_tools": say("Describe tools"),
    "disallow_flow": say("Forbid a flow of data"),
    "disconnect_assistant": say("Disconnect an assistant"),
    "enable_server": say("Enable or disable a server"),
    "export_posts": say("Export posts"),
    "find_posts": say("Search posts"),
    "finish_login": say("Finish a login"),
    "forget_page": say("Delete a page"),
    "get_document": say("Read a document"),
    "get_documentation": say("Read the manual"),
    "get_post": say("Read a post"),
    "get_timeline": say("Read the timeline"),
    "hub_start": say("The hub started"),
    "hub_stop": say("The hub stopped"),
    "import_posts": say("Import posts"),
    "keep_server": say("Keep the hub running"),
    "keys_create": say("Create an API key"),
    "keys_revoke": say("Revoke an API key"),
    "keys_update": say("Change an API key"),
    "list_document_folders": say("List folders of documents"),
    "list_documents": say("List documents"),
    "list_pages": say("List pages"),
    "list_posts": say("List posts"),
    "list_watched": say("List watched folders"),
    "logout_server": say("Log out of a server"),
    "pull_model": say("Download a model"),
    "put_document": say("Save a document"),
    "put_documents": say("Save documents"),
    "put_file": say("Upload a file"),
    "put_upload": say("Upload files"),
    "read_more": say("Read more of a result"),
    "read_site": say("Read a whole site"),
    "read_url_content": say("Read a web page"),
    "reembed": say("Index for semantic search again"),
    "refuse_call": say("Refuse a call"),
    "reject_definitions": say("Reject changed definitions"),
    "remember_site": say("Save a whole site"),
    "remove_profile": say("Remove a profile"),
    "remove_server": say("Remove a server"),
    "restart_hub": say("Restart the hub"),
    "restart_upstream": say("Restart a server"),
    "run_doctor": say("Check for problems"),
    "run_script": say("Run a script"),
    "save_profile": say("Save a profile"),
    "search": say("Search"),
    "search_documents": say("Search documents"),
    "search_everything": say("Search everything"),
    "search_posts_by_text": say("Search posts by text"),
    "search_similar": say("Search posts by meaning"),
    "search_tools": say("Search tools"),
    "set_tool_visibility": say("Show or hide a tool"),
    "set_up_assistants": say("Connect assistants"),
    "settings_reload": say("Settings were loaded again"),
    "sign_in": say("Sign in"),
    "sign_in_link": say("Create a sign-in link"),
    "start_login": say("Begin a login"),
    "start_upstream": say("Start a server"),
    "stop_server": say("End the hub"),
    "stop_upstream": say("Stop a server"),
    "test_server": say("Test a server"),
    "trust_project": say("Trust a project"),
    "try_server": say("Try a server"),
    "undo_setup": say("Undo a connection of assistants"),
    "unwatch_documents": say("Stop watching a folder"),
    "use_model": say("Use a model"),
    "verify_audit_log": say("Verify the audit log"),
    "watch_documents": say("Watch a folder"),
}
"""The words for names that people meet in the audit log, in usage and in live calls."""


def operation_name(name: str) -> Message:
    """Return an operation or an event in words: its own, or those that its name is made of."""
    words = name.replace("/", " ").replace("_", " ").capitalize()
    return NAMES.get(name) or Message("{words}", words=words)


def entry_name(row: Mapping[str, Any]) -> Message | str:
    """Return what an entry of the audit log is about: the name of a server's tool, or words."""
    name: str = row.get("name", "")
    return name if "server" in row or "__" in name else operation_name(name)
