"""Models from a hub, into the cache that all programs share."""

from __future__ import annotations

import asyncio
import hashlib
import os
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tabane.errors import ModelError, ModelMissing, ModelUnavailable
from tabane.messages import Message
from tabane.search.embedding.model_files import HubPlace, hub_place
from tabane.search.embedding.model_hub import DownloadProgress, ModelHub, ModelSnapshot
from tests.harness.patience import LONG
from tests.search.embedding import tiny
from tests.search.embedding.servers import FakeHub

MODEL = "org/tiny"
COMMIT = "a" * 40


def everything(paths: Sequence[str]) -> list[str]:
    if "model.safetensors" not in paths or "config.json" not in paths:
        raise ModelMissing(Message("Not whole."))
    return sorted(paths)


def _weights(found: ModelSnapshot) -> bytes:
    return Path(found.folder, "model.safetensors").read_bytes()


@asynccontextmanager
async def open_hub(
    tmp_path: Path, fake: FakeHub | None = None, **more: Any
) -> AsyncIterator[tuple[ModelHub, FakeHub]]:
    hub = fake or FakeHub()
    if not hub.models:
        hub.add(MODEL, tiny.make(tmp_path / "source"))
    async with asyncio.timeout(LONG), hub.serving() as url:
        options = {key: more.pop(key) for key in ("attempts", "expected") if key in more}
        made = ModelHub(HubPlace(str(tmp_path / "cache"), url, **more), pause=0.01, **options)
        try:
            yield made, hub
        finally:
            await made.close()


async def test_a_model_is_fetched_into_the_layout_that_all_programs_share(tmp_path: Path) -> None:
    told: list[DownloadProgress] = []
    async with open_hub(tmp_path) as (hub, fake):
        found = await hub.get(MODEL, everything, told=told.append)
        assert (found.model, found.commit, list(found.paths)) == (MODEL, COMMIT, sorted(fake.models[MODEL]))
        place = tmp_path / "cache" / "models--org--tiny"
        assert (place / "refs" / "main").read_text() == COMMIT
        assert found.folder == str(place / "snapshots" / COMMIT)
        weights = place / "snapshots" / COMMIT / "model.safetensors"
        content = fake.models[MODEL]["model.safetensors"]
        assert os.readlink(weights) == f"../../blobs/{hashlib.sha256(content).hexdigest()}"
        for path, wanted in fake.models[MODEL].items():
            assert (place / "snapshots" / COMMIT / path).read_bytes() == wanted
        assert not list((place / "blobs").glob("*.incomplete"))
        total = sum(map(len, fake.models[MODEL].values()))
        assert told[-1].here == told[-1].total == total
        assert [each.here for each in told] == sorted(each.here for each in told)


async def test_a_model_in_the_cache_needs_no_hub(tmp_path: Path) -> None:
    async with open_hub(tmp_path) as (hub, fake):
        first = await hub.get(MODEL, everything)
        fake.asked.clear()
        assert await hub.get(MODEL, everything) == first
        assert await hub.get(MODEL, everything, COMMIT) == first
        assert fake.asked == []


async def test_a_branch_stays_at_the_commit_it_was_first_fetched_at(tmp_path: Path) -> None:
    async with open_hub(tmp_path) as (hub, fake):
        first = await hub.get(MODEL, everything)
        fake.add(MODEL, tiny.make(tmp_path / "newer", seed=2), "b" * 40)
        assert await hub.get(MODEL, everything) == first
        assert (await hub.get(MODEL, everything, "v1")).commit == "b" * 40


async def test_what_was_broken_off_goes_on_from_where_it_was(tmp_path: Path) -> None:
    async with open_hub(tmp_path) as (hub, fake):
        fake.cut = 1000
        found = await hub.get(MODEL, everything)
        assert _weights(found) == fake.models[MODEL]["model.safetensors"]
        weights = [what for what in fake.fetched("file") if what.startswith("model.safetensors")]
        assert weights[0] == "model.safetensors@0"
        assert 0 < int(weights[1].rpartition("@")[2]) <= 1000


async def test_what_another_process_left_is_gone_on_with(tmp_path: Path) -> None:
    fake = FakeHub()
    fake.add(MODEL, tiny.make(tmp_path / "source"))
    content = fake.models[MODEL]["model.safetensors"]
    part = tmp_path / "cache/models--org--tiny/blobs" / f"{hashlib.sha256(content).hexdigest()}.incomplete"
    part.parent.mkdir(parents=True)
    part.write_bytes(content[:777])
    async with open_hub(tmp_path, fake) as (hub, fake):
        await hub.get(MODEL, everything)
        assert "model.safetensors@777" in fake.fetched("file")


async def test_a_server_without_ranges_is_asked_for_all_of_it(tmp_path: Path) -> None:
    async with open_hub(tmp_path) as (hub, fake):
        fake.cut, fake.no_ranges = 1000, True
        found = await hub.get(MODEL, everything)
        assert _weights(found) == fake.models[MODEL]["model.safetensors"]


async def test_a_server_that_always_breaks_off_is_given_up(tmp_path: Path) -> None:
    async with open_hub(tmp_path) as (hub, fake):
        fake.cut, fake.cuts, fake.no_ranges = 1000, 100, True
        with pytest.raises(ModelUnavailable):
            await hub.get(MODEL, everything)


@pytest.mark.parametrize("path", ["model.safetensors", "config.json"])
async def test_content_that_is_not_what_was_promised_is_refused(tmp_path: Path, path: str) -> None:
    async with open_hub(tmp_path) as (hub, fake):
        files = fake.models[MODEL]
        listed = [fake._sibling(name, content) for name, content in files.items()]
        fake.altered = {"siblings": listed}
        files[path] = bytes([files[path][0] ^ 1]) + files[path][1:]
        with pytest.raises(ModelError, match="wrong checksum"):
            await hub.get(MODEL, everything)
        assert not (tmp_path / "cache/models--org--tiny/snapshots" / COMMIT / path).exists()
        assert hub.cached(MODEL, everything) is None
        fake.altered = {}
        await hub.get(MODEL, everything)


async def test_a_file_that_is_longer_than_promised_is_refused(tmp_path: Path) -> None:
    async with open_hub(tmp_path) as (hub, fake):
        listed = [fake._sibling(name, content) for name, content in fake.models[MODEL].items()]
        fake.altered = {"siblings": listed}
        fake.models[MODEL]["config.json"] += b" "
        with pytest.raises(ModelError, match="longer than announced"):
            await hub.get(MODEL, everything)


@pytest.mark.parametrize(
    "altered",
    [
        {"sha": "main"},
        {"sha": 5},
        {"siblings": [{"rfilename": "../config.json", "size": 1, "blobId": "a" * 40}]},
        {"siblings": [{"rfilename": "/etc/passwd", "size": 1, "blobId": "a" * 40}]},
        {"siblings": [{"rfilename": "config.json", "size": 1, "blobId": "../../x"}]},
        {"siblings": [{"rfilename": "config.json", "size": -1, "blobId": "a" * 40}]},
    ],
)
async def test_a_listing_that_would_lead_elsewhere_is_refused(
    tmp_path: Path, altered: dict[str, Any]
) -> None:
    async with open_hub(tmp_path) as (hub, fake):
        fake.altered = altered
        with pytest.raises(ModelError, match="is not valid"):
            await hub.get(MODEL, everything)


@pytest.mark.parametrize("name", ["../x", "a/../b", "a/b/c", "/etc", "", "a--b/c", "a b"])
async def test_what_is_no_name_of_a_model_is_asked_of_nobody(tmp_path: Path, name: str) -> None:
    async with open_hub(tmp_path) as (hub, fake):
        for model, revision in ((name, "main"), (MODEL, name)):
            with pytest.raises(ModelMissing, match="not the name"):
                await hub.get(model, everything, revision)
        assert fake.tokens == []


async def test_faults_that_pass_are_waited_out(tmp_path: Path) -> None:
    async with open_hub(tmp_path) as (hub, fake):
        fake.faults = [(503, {}), (429, {"Retry-After": "0"}), (500, {})]
        assert (await hub.get(MODEL, everything)).commit == COMMIT


async def test_a_hub_that_stays_away_is_unavailable(tmp_path: Path) -> None:
    async with open_hub(tmp_path, attempts=3) as (hub, fake):
        fake.faults = [(503, {})] * 3
        with pytest.raises(ModelUnavailable, match="HTTP 503"):
            await hub.get(MODEL, everything)
        assert fake.faults == []


@pytest.mark.parametrize(("status", "said"), [(404, "has no org/tiny"), (401, "HF_TOKEN"), (403, "HF_TOKEN")])
async def test_a_model_that_is_not_given_is_missing(tmp_path: Path, status: int, said: str) -> None:
    async with open_hub(tmp_path) as (hub, fake):
        fake.faults = [(status, {})]
        with pytest.raises(ModelMissing, match=said):
            await hub.get(MODEL, everything)


async def test_the_token_goes_along(tmp_path: Path) -> None:
    async with open_hub(tmp_path, token="sesame") as (hub, fake):
        await hub.get(MODEL, everything)
        assert set(fake.tokens) == {"Bearer sesame"}
        assert "sesame" not in repr(hub.place)


async def test_offline_only_the_cache_is_asked(tmp_path: Path) -> None:
    async with open_hub(tmp_path) as (hub, _):
        await hub.get(MODEL, everything)
    async with open_hub(tmp_path, offline=True) as (hub, fake):
        assert (await hub.get(MODEL, everything)).commit == COMMIT
        with pytest.raises(ModelMissing, match="HF_HUB_OFFLINE"):
            await hub.get("org/other", everything)
        assert fake.tokens == []


async def test_a_cache_in_which_another_program_left_half_is_completed(tmp_path: Path) -> None:
    async with open_hub(tmp_path) as (hub, _):
        await hub.get(MODEL, lambda paths: [path for path in paths if path != "sentence_bert_config.json"])
    async with open_hub(tmp_path, expected=("sentence_bert_config.json", "modules.json")) as (hub, fake):
        found = await hub.get(MODEL, everything)
        assert "sentence_bert_config.json" in found.paths
        assert fake.fetched("file") == ["sentence_bert_config.json@0"]
        fake.asked.clear()
        # That there is no modules.json is known by now.
        await hub.get(MODEL, everything)
        assert fake.asked == []


async def test_two_at_once_fetch_a_file_once(tmp_path: Path) -> None:
    async with open_hub(tmp_path) as (hub, fake):
        other = ModelHub(hub.place)
        try:
            one, two = await asyncio.gather(hub.get(MODEL, everything), other.get(MODEL, everything))
        finally:
            await other.close()
        assert one == two
        assert sorted(fake.fetched("file")) == sorted(f"{path}@0" for path in fake.models[MODEL])


async def test_a_cache_that_cannot_be_written_says_so(tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file")
    async with open_hub(tmp_path) as (hub, _):
        with pytest.raises(ModelError, match="cannot be stored"):
            await hub.get(MODEL, everything)


@pytest.mark.parametrize(
    ("environ", "folder"),
    [
        ({"HOME": "/h"}, "/h/.cache/huggingface/hub"),
        ({"HOME": "/h", "XDG_CACHE_HOME": "/c"}, "/c/huggingface/hub"),
        ({"HOME": "/h", "XDG_CACHE_HOME": "/c", "HF_HOME": "/f"}, "/f/hub"),
        ({"HOME": "/h", "HF_HOME": "/f", "HUGGINGFACE_HUB_CACHE": "/o"}, "/o"),
        ({"HOME": "/h", "HF_HOME": "/f", "HUGGINGFACE_HUB_CACHE": "/o", "HF_HUB_CACHE": "/n"}, "/n"),
    ],
)
def test_the_cache_is_where_huggingface_hub_has_it(environ: dict[str, str], folder: str) -> None:
    assert hub_place(environ).folder == folder


def test_mirror_token_and_offline_are_taken_from_the_environment() -> None:
    plain = hub_place({"HOME": "/h"})
    assert (plain.endpoint, plain.offline, plain.token) == ("https://huggingface.co", False, None)
    given = hub_place({"HOME": "/h", "HF_ENDPOINT": "http://m/", "HF_HUB_OFFLINE": "Yes", "HF_TOKEN": "t"})
    assert (given.endpoint, given.offline, given.token) == ("http://m", True, "t")
    assert not hub_place({"HF_HUB_OFFLINE": "0"}).offline
    assert hub_place({"HF_TOKEN": "t"}, "s").token == "s"
