"""Formats on disk and between builds stay as formats.json describes them, whatever the classes are called."""

from __future__ import annotations

import ast
import json
from typing import Any

import pytest

from tabane.access.oauth.claims import TokenClaims
from tabane.access.oauth.signing_keys import IssuerMetadata
from tabane.access.oauth.verifier import JwtHeader
from tabane.audit.log_lines import _SearchedValues
from tabane.audit.verification import _SeqAndMac
from tabane.guard.flows.tool_labels import KnownServer
from tabane.hub.backup.archive_format import _ManifestHead
from tabane.hub.clients.questions.parked_files import _FileHead
from tabane.hub.sources.post_uploads import SentFile
from tabane.search.embedding.embedding_service import _EmbeddingsResponse
from tabane.web.app import SignInAttempt
from tabane.web.pages.tools import AppRequest
from tabane.wire.era import _Typed
from tabane.wire.json import JsonRpcFrame
from tests.structure.formats.decoded import SOURCE, decoded_types
from tests.structure.formats.formats import DATA, SECTIONS, formats

HOW = (
    "a format has changed, which earlier builds write and send as formats.json says. If that is meant, and "
    "each reads what the other writes: python -m tests.structure.formats.formats"
)
NO_FORMATS_OF_OURS = {
    KnownServer,  # a file of the package
    *(TokenClaims, IssuerMetadata, JwtHeader, _EmbeddingsResponse),  # of other programs
    *(JsonRpcFrame, _Typed),  # of MCP
    *(AppRequest, SignInAttempt, SentFile),  # of a page that the same hub has sent
    *(_SearchedValues, _SeqAndMac, _ManifestHead, _FileHead),  # parts of formats that formats.py has
}


@pytest.fixture(scope="module")
def found() -> dict[str, Any]:
    return formats()


@pytest.mark.parametrize("section", ["samples", "constants", "tables"])
def test_what_is_written_is_what_earlier_builds_wrote(found: dict[str, Any], section: str) -> None:
    assert found[section] == json.loads(DATA.read_text())[section], HOW


@pytest.mark.parametrize("section", SECTIONS)
def test_members_keep_their_names_order_types_and_tags(found: dict[str, Any], section: str) -> None:
    assert found["types"][section] == json.loads(DATA.read_text())["types"][section], HOW


def test_the_description_names_no_module() -> None:
    """So a move changes no format. Words of its own with a dot are names of files, or versions."""
    assert "tabane." not in DATA.read_text()


@pytest.mark.heavy("reads the whole source")
def test_whatever_is_decoded_has_a_description() -> None:
    named = {kind for section in SECTIONS.values() for kind in section.values() if isinstance(kind, type)}
    missing = {kind: where for kind, where in decoded_types().items() if kind not in named}
    assert missing.keys() - NO_FORMATS_OF_OURS == set(), f"give it a logical name in formats.py: {missing}"
    assert NO_FORMATS_OF_OURS - missing.keys() == set(), "nothing decodes it any more"


def test_no_tag_depends_on_the_name_of_a_class() -> None:
    """A tag is a text in the source: ``tag=True`` would be the name of the class, and change with it."""
    implicit = [
        f"{path.relative_to(SOURCE)}:{node.lineno}"
        for path in SOURCE.rglob("*.py")
        if "tag=" in (text := path.read_text())
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.ClassDef)
        for keyword in node.keywords
        if keyword.arg == "tag" and not (isinstance(keyword.value, ast.Constant) and _is_text(keyword.value))
    ]
    assert implicit == []


def _is_text(constant: ast.Constant) -> bool:
    return isinstance(constant.value, str)
