"""Every kind of hit has a reference that the door of its face accepts, and that opens it."""

from __future__ import annotations

from pathlib import Path
from typing import Any, get_args

import pytest

from tabane.hub.sources.search_everything import KINDS, SearchKind
from tabane.operations import Caller, Face
from tabane.wire import json
from tests.harness.running_hub import RunningHub, child, running_hub
from tests.posts.importing.archives import row, write_csv
from tests.reader.site import Site, running

KEY = 1609704062058496137
TEXT = "an echo of a request"


async def asked(here: RunningHub, face: Face, operation: str, /, **params: Any) -> Any:
    return await here.hub.door.invoke(Caller("local", face, "sources"), operation, json.encode(params))


async def fill(here: RunningHub, folder: Path, site: Site) -> None:
    """Give each kind something to find: a tool, a post, a document and a page. The manual is always there."""
    site.put("/echo.md", f"# Echo\n\n{TEXT}\n", "text/markdown")
    await asked(here, Face.CLI, "test_server", name="up")
    await asked(here, Face.CLI, "put_document", filepath="notes/echo.md", text=f"# Note\n\n{TEXT}")
    await asked(here, Face.CLI, "read_url_content", url=site.url("/echo.md"))
    job = await asked(
        here, Face.RPC, "import_posts", files=[str(write_csv(folder / "p.csv", [row(KEY, TEXT)]))]
    )
    while job["status"] == "running":
        job = await asked(here, Face.RPC, "follow_job", job=job["job"], version=job["version"], wait=20)
    assert job["status"] == "done", job


def test_the_kinds_are_those_of_the_parameter() -> None:
    assert get_args(SearchKind) == KINDS


@pytest.mark.heavy("a large vocabulary or corpus")
@pytest.mark.parametrize("face", [Face.MCP, Face.RPC])
async def test_the_reference_of_a_hit_opens_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, face: Face
) -> None:
    with running() as site:
        async with running_hub(tmp_path, {"up": child()}, reader_allow=(f"127.0.0.1:{site.port}",)) as here:
            await fill(here, tmp_path, site)
            for kind in KINDS:
                found = await asked(here, face, "search_everything", query="echo request", **{"in": [kind]})
                assert found["results"], kind
                for hit in found["results"]:
                    assert hit["kind"] == kind
                    name, arguments = hit["open"].values()
                    operation = here.hub.table.get(name)
                    assert operation is not None
                    assert face in operation.faces
                    assert await asked(here, face, name, **arguments), hit
