"""Real English texts and their MiniLM vectors: paragraphs of what Python and its packages say of themselves.

They are embedded once, as posts and documents are, and kept in the user's cache.
"""

from __future__ import annotations

import ast
import asyncio
import hashlib
import os
import re
import sys
import sysconfig
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import platformdirs
from benchmarks.search.vectors.corpus import Matrix

from tabane.search.embedding.model_files import HubPlace
from tabane.search.embedding.model_finder import FoundModel, ModelChoice, ModelFinder
from tabane.search.embedding.model_hub import ModelHub
from tabane.search.embedding.model_packages import MINILM, PACKAGES, read_packed_model

COUNT = 20_000
_SHORTEST, _LONGEST = 60, 300
_TOGETHER = 1000


def paragraphs(count: int) -> list[str]:
    """Different paragraphs of docstrings, the same each time on one machine."""
    found: dict[str, None] = {}
    for text in _docstrings():
        for paragraph in re.split(r"\n\s*\n", text):
            plain = " ".join(paragraph.split())
            if len(plain) >= _SHORTEST and plain.isascii() and plain.count(" ") >= 8:
                found[plain[:_LONGEST]] = None
    chosen = list(found)
    # Spread over all of them, so that no package has most.
    return [chosen[at * len(chosen) // count] for at in range(min(count, len(chosen)))]


def _docstrings() -> Iterator[str]:
    for folder in (Path(sysconfig.get_path(name)) for name in ("stdlib", "purelib")):
        for path in sorted(folder.rglob("*.py")):
            if "site-packages" not in path.relative_to(folder).parts:
                yield from _docstrings_of(path)


def _docstrings_of(path: Path) -> Iterator[str]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(path.read_bytes())
    except (SyntaxError, ValueError, RecursionError, OSError):
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield ast.get_docstring(node) or ""


def embedded(count: int = COUNT) -> tuple[list[str], Matrix] | None:
    """Texts and unit vectors; None where there is no MiniLM on this machine."""
    texts = paragraphs(count)
    digest = hashlib.sha256("\n".join([MINILM, *texts]).encode()).hexdigest()[:16]
    path = platformdirs.user_cache_path("tabane") / "bench" / f"minilm-{len(texts)}-{digest}.npy"
    if path.exists():
        return texts, np.load(path)
    vectors = asyncio.run(_embed(texts))
    if vectors is None:
        return None
    path.parent.mkdir(parents=True, exist_ok=True)
    np.save(path, vectors)
    return texts, vectors


async def _embed(texts: list[str]) -> Matrix | None:
    if read_packed_model(PACKAGES[MINILM]) is None:
        return None
    with tempfile.TemporaryDirectory(prefix="tabane-bench-") as kept:
        found = await ModelFinder(ModelHub(HubPlace(kept, offline=True)), kept).find(ModelChoice(MINILM))
        assert isinstance(found, FoundModel)
        embedder = await found.open(os.environ)
        try:
            vectors: list[bytes] = []
            for first in range(0, len(texts), _TOGETHER):
                vectors += await embedder.embed(texts[first : first + _TOGETHER])
                print(f"MiniLM: {len(vectors):,} of {len(texts):,} texts, this once", file=sys.stderr)
        finally:
            await embedder.close()
    return np.frombuffer(b"".join(vectors), dtype="<f4").reshape(len(texts), -1).astype(np.float32)
