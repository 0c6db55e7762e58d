"""A small archive of posts: its rows, its vectors, and the model that made them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tests.harness.home import Home, hub
from tests.posts.importing.archives import row, vector, write_csv, write_results, write_vectors
from tests.search.embedding import tiny

MODEL = "little"
DIMENSION = 24

POSTS = [
    row(1, "赤い猫が家にいる", user="alice", timestamp="2023-03-01 10:00:00"),
    row(2, "the red house", user="alice", timestamp="2023-04-01 10:00:00"),
    row(3, "the blue dog and a tree", user="bob", timestamp="2024-05-01 10:00:00", log_type="2"),
    row(4, "a cat sat & 犬", user="bob", timestamp="2024-06-01 10:00:00", log_type="3"),
    row(5, "\x1b[31mred\x1b[0m\n\nthe last", user="hanako", timestamp="2025-07-01 10:00:00"),
]


def with_model(folder: Path, **settings: object) -> Home:
    """A home whose model knows a few words, ``settings`` beside it in tabane.toml."""
    home = Home(folder)
    home.environment["TABANE_CONFIG"] = str(folder / "tabane.toml")
    del home.environment["TABANE_MODEL"]  # the file says it
    home.write_servers({})
    settings = {"model": str(tiny.make(folder / MODEL)), "posts_zone": "Asia/Tokyo", **settings}
    file = folder / "tabane.toml"
    file.write_text("".join(f"{name} = {json.dumps(value)}\n" for name, value in settings.items()))
    file.chmod(0o600)
    return home


@contextmanager
def archive_hub(folder: Path) -> Iterator[Home]:
    """A hub with the archive and its vectors, whose model is open."""
    home = with_model(folder)
    files = write_archive(home.folder / "archive")
    with hub(home):
        assert home.run("models", "test").status == 0  # by its name alone, a folder is known once it was open
        flags = [word for flag in ("-e", "-r", "-s") for word in (flag, files[flag])]
        done = home.run("posts", "import", "archive/twilog.csv", *flags)
        assert done.status == 0, done.err
        yield home


def vectors(axes: Mapping[int, int]) -> dict[int, bytes]:
    """Post → the vector of the axis of that number."""
    return {
        post: vector(*(float(place == axis) for place in range(DIMENSION))) for post, axis in axes.items()
    }


def write_archive(folder: Path) -> dict[str, str]:
    """What the original twilog leaves behind: the CSV, and three folders of vectors, by their flags."""
    folder.mkdir(parents=True, exist_ok=True)
    csv = write_csv(folder / "twilog.csv", POSTS)
    write_results(
        folder / "batch" / "results.jsonl",
        [{"key": n, "reasoning": f"reason {n}", "summary": f"summary {n}", "tags": ["動物", f"t{n}"]}
         for n in range(1, 5)],
    )  # fmt: skip
    axes = {n: n for n in range(1, 6)}
    places = {"-e": "embeddings", "-r": "batch/reasoning", "-s": "batch/summary"}
    return {
        flag: write_vectors(
            folder / place, vectors(axes), dimension=DIMENSION, model=MODEL, source_path="twilog.csv"
        )
        for flag, place in places.items()
    } | {"csv": csv}
