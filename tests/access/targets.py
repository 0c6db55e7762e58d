"""Strategies for targets and patterns, and a few targets with names."""

from __future__ import annotations

from hypothesis import strategies as st

from tabane.access.permissions import PermissionPatterns
from tabane.operations.caller import SOURCES, CallTarget, TargetKind

READ_ISSUE = CallTarget("github__get_issue", "github", changes=False)
CLOSE_ISSUE = CallTarget("github__close_issue", "github")
TIME = CallTarget("time__now", "time", changes=False)
SEARCH_POSTS = CallTarget("search_posts", source="posts", kind="operation", changes=False)
PUT_DOCUMENT = CallTarget("put_document", source="documents", kind="operation")
STOP = CallTarget("stop_upstream", source="admin", kind="operation")
UNDECLARED = CallTarget("new_operation", kind="operation")
SEARCH_TOOLS = CallTarget("search_tools", source="hub", kind="operation", changes=False)

_words = st.text("abg_", min_size=1, max_size=5)
servers = st.sampled_from(["", "a", "ab", "g"])


@st.composite
def targets(draw: st.DrawFn) -> CallTarget:
    server, word = draw(servers), draw(_words)
    prefixed = draw(st.booleans())
    name = f"{server}__{word}" if server and prefixed else word
    source = "" if server else draw(st.sampled_from(["", *SOURCES]))
    kinds: list[TargetKind] = ["tool", "prompt", "resource"] if server else ["operation"]
    kind = draw(st.sampled_from(kinds))
    return CallTarget(name, server, source, kind, draw(st.booleans()))


patterns = st.one_of(
    st.text("abg_*", min_size=1, max_size=7),
    st.sampled_from(["*", "@posts", "@documents", "@pages", "@tools", "@docs", "@admin", "a__*", "*__a"]),
)
pattern_lists = st.lists(patterns, max_size=4)
rule_patterns = st.builds(
    lambda allow, deny, read_only: PermissionPatterns.checked(allow, deny, read_only=read_only),
    pattern_lists,
    pattern_lists,
    st.booleans(),
)
