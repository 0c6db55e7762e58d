"""A killed import resumes; an import of a large file uses little memory."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path

import pytest

from tests.harness.patience import LONG
from tests.posts.importing.archives import (
    FIRST,
    all_in,
    do_import,
    row,
    vector,
    write_csv,
    write_results,
    write_vectors,
)

pytestmark = pytest.mark.heavy("kills real processes, many times")

POSTS = range(FIRST, FIRST + 3000)


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """3,000 posts, a third of them twice; results of two thirds, vectors of half."""
    folder = tmp_path_factory.mktemp("sources")
    chance = random.Random(7)
    rows = [row(post, f"post {post}", log_type=chance.choice((1, 2, 3))) for post in (*POSTS, *POSTS[::3])]
    chance.shuffle(rows)
    results = [{"key": post, "summary": f"about {post}", "tags": ["t"]} for post in POSTS if post % 3]
    vectors = {post: vector(chance.random(), 1, 2, 3) for post in POSTS[:400]}
    return [
        write_csv(folder / "twilog.csv", rows),
        write_results(folder / "results.jsonl", results),
        write_vectors(folder / "embeddings", vectors),
    ]


@pytest.fixture(scope="module")
def fresh(sources: list[str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The collection that an import makes which nobody disturbed."""
    home = tmp_path_factory.mktemp("fresh")
    do_import(home, sources)
    return home


def child(home: Path | str, part: float, *files: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tests.posts.importing.child", str(home), str(part), *files]
    root = Path(__file__).parents[3]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=root)


@pytest.mark.parametrize("part", [0.05, 0.45, 0.8])
def test_an_import_that_is_killed_is_finished_by_the_next(
    sources: list[str], fresh: Path, tmp_path: Path, part: float
) -> None:
    with child(tmp_path / "home", part, *sources) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "waiting\n"
        process.kill()
        assert process.wait(LONG) == -9
    there = all_in(tmp_path / "home")
    whole = all_in(fresh)
    assert there.keys() < whole.keys()
    report = do_import(tmp_path / "home", sources)
    assert report.new == len(whole) - len(there)
    assert all_in(tmp_path / "home") == whole
    assert do_import(tmp_path / "home", sources).unchanged == len(whole)


def grown(home: Path | str, *files: str) -> int:
    """Bytes that a process took for an import, or for reading."""
    with child(home, 2, *files) as process:
        said, _ = process.communicate(timeout=4 * LONG)
    return int(said.splitlines()[-1].split()[1])


def test_two_hundred_megabytes_of_rows_are_read_in_a_few(tmp_path: Path) -> None:
    path = tmp_path / "twilog.csv"
    with path.open("w") as file:
        for number in range(1, 3500):
            file.write(",".join(f'"{cell}"' for cell in row(number, ("長い投稿" * 60 + "\n") * 80)) + "\n")
    assert path.stat().st_size > 200_000_000
    assert grown("", str(path)) < 20_000_000


def test_what_an_import_takes_does_not_grow_with_the_file(tmp_path: Path) -> None:
    sizes = {}
    for posts in (400, 1600):
        path = write_csv(
            tmp_path / f"{posts}.csv", (row(each, "長い投稿\n" * 1500) for each in range(1, posts))
        )
        sizes[posts] = grown(tmp_path / str(posts), path)
    assert Path(path).stat().st_size > 30_000_000
    assert sizes[1600] < sizes[400] + 12_000_000, sizes
