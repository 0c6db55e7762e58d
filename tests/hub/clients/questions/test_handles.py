"""Handles of parked calls."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from tabane.hub.clients.questions.parked_files import (
    CallBinding,
    CallHandle,
    ForgedHandle,
    HandleSigner,
    digest_of,
)

SIGNER, OTHER = HandleSigner(b"k" * 32), HandleSigner(b"o" * 32)
texts = st.text(max_size=20)
bindings = st.builds(
    CallBinding, texts, st.sampled_from([b"tools/call", b"prompts/get"]), texts, st.binary(max_size=16)
)
handles = st.builds(
    CallHandle,
    st.text("0123456789abcdef", min_size=16, max_size=16),
    st.integers(0, 99),
    st.integers(0, 2**40),
)


@given(handles, bindings, bindings)
def test_a_handle_is_read_only_with_what_it_was_bound_to(
    handle: CallHandle, binding: CallBinding, another: CallBinding
) -> None:
    text = SIGNER.sign(handle, binding)
    assert SIGNER.check(text, binding) == handle
    assert OTHER.check(text, binding) is None
    if another != binding:
        with pytest.raises(ForgedHandle):
            SIGNER.check(text, another)


@given(handles, bindings, st.integers(0, 200), st.characters(exclude_categories=["Cs"]))
def test_no_changed_handle_is_taken(handle: CallHandle, binding: CallBinding, at: int, char: str) -> None:
    text = SIGNER.sign(handle, binding)
    at %= len(text)
    changed = text[:at] + char + text[at + 1 :]
    if changed == text:
        return
    with suppress(ForgedHandle):
        assert SIGNER.check(changed, binding) is None


@given(st.text())
def test_any_text_is_a_foreign_state(text: str) -> None:
    assert SIGNER.check(text, CallBinding("", b"", "", b"")) is None


def test_a_digest_does_not_depend_on_how_the_arguments_are_written() -> None:
    one, same = (
        Raw(b'{"a":1,"b":[{"c":2,"d":"\\u82b1"}]}'),
        Raw('{ "b": [{"d":"花","c":2}], "a":1 }'.encode()),
    )
    assert digest_of({"arguments": one}) == digest_of({"arguments": same})
    assert digest_of({"arguments": one}) != digest_of({"arguments": Raw(b'{"a":2}')})
    assert digest_of({}) == digest_of({"arguments": Raw(b"{}")})
