"""`tabane docs` as a user runs it: texts put, folders added and watched, found, read and deleted."""

from __future__ import annotations

import importlib.util
import json
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness.archive import with_model
from tests.harness.home import Home, hub
from tests.harness.patience import LONG


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    """A hub with a few documents, found by their words."""
    home = with_model(tmp_path_factory.mktemp("home"), model="none")
    with hub(home):
        for name, text, *options in (
            ("notes/apples.md", "# Apples\n\nRed ones and green ones.\n", "--metadata", "year=2024"),
            ("notes/pears.md", "# Pears\n\nGreen ones.\n", "--metadata", "year=2026", "--file-type", "spec"),
            ("plan.txt", "次の計画を書く。", "--metadata", "tag=a", "--metadata", "tag=b"),
        ):
            done = home.run("docs", "put", "-", "--id", name, *options, stdin=text)
            assert done.status == 0, done.err
        yield home


def test_a_text_is_put_once_and_updated_in_place(tmp_path: Path) -> None:
    home = with_model(tmp_path, model="none")
    (tmp_path / "猫.txt").write_bytes("吾輩は猫である。\n".encode("cp932"))
    with hub(home):
        first = home.run("docs", "put", "猫.txt")
        assert first.out == f"{tmp_path / '猫.txt'}: saved, 1 chunk\n"
        assert "unchanged" in home.run("docs", "put", "猫.txt").out
        (tmp_path / "猫.txt").write_text("吾輩は犬である。\n")
        assert home.run("docs", "put", "猫.txt", "--json").json["details"]["updated"] is True
        assert home.run("docs", "get", str(tmp_path / "猫.txt")).out == "吾輩は犬である。\n"


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (("put", "-"), "--id"),
        (("put", "nothing.md"), "nothing.md cannot be read"),
        (("put", sys.executable), "is not text"),
        (("put", "page.html"), "tabane docs add"),
        (("put", "-", "--id", "../x"), '".."'),
        (("put", "-", "--id", "x", "--encoding", "klingon"), "klingon"),
        (("search", "x", "--filters", "{"), "--filters"),
        (("delete",), "--prefix"),
        (("delete", "--prefix", "notes/"), "--yes"),
        (("watch",), "--list"),
        (("watch", "nowhere"), "is not a folder"),
        (("watch", "--remove", "nowhere"), "is not watched"),
        (("add", "nowhere"), "does not exist"),
        (("add", ".", "--since", "soon"), "2026-01-31"),
    ],
)
def test_what_is_wrong_is_the_callers_mistake_and_says_what_would_be_right(
    home: Home, arguments: tuple[str, ...], word: str
) -> None:
    (home.folder / "page.html").write_text("<!doctype html><p>x")
    done = home.run("docs", *arguments, stdin="text")
    assert (done.status, done.out) == (2, ""), done
    assert word in done.err


def test_documents_are_found_by_words_types_and_metadata(home: Home) -> None:
    found = home.run("docs", "search", "green")
    assert {row[1] for row in found.rows} == {"notes/apples.md", "notes/pears.md"}
    assert "keywords only" in found.err
    for options, names in (
        (["--file-type", "spec"], {"notes/pears.md"}),
        (["--filters", '{"year": {"lt": 2025}}'], {"notes/apples.md"}),
        (["--top-k", "1"], None),
    ):
        answer = home.run("docs", "search", "green", *options, "--json").json
        assert answer["count"] == 1
        assert names is None or {row["filepath"] for row in answer["results"]} == names
    tagged = home.run("docs", "search", "計画", "--filters", '{"tag": ["b", "c"]}', "--json").json
    assert [row["filepath"] for row in tagged["results"]] == ["plan.txt"]


def test_documents_are_listed_counted_and_read(home: Home) -> None:
    assert [row[0] for row in home.run("docs", "list").rows] == [
        "notes/apples.md",
        "notes/pears.md",
        "plan.txt",
    ]
    assert [row[0] for row in home.run("docs", "list", "notes/", "--limit", "1").rows] == ["notes/apples.md"]
    assert home.run("docs", "list", "nothing/").rows == []
    assert home.run("docs", "get", "notes/pears.md").out == "# Pears\n\nGreen ones.\n"
    assert home.run("docs", "get", "notes/pears.md", "--json").json["metadata"]["year"] == 2026
    assert home.run("docs", "stats").rows[0] == ["documents", "3"]
    missing = home.run("docs", "get", "nothing.md", "--json")
    assert missing.status == 1
    assert missing.json["status"] == "error"
    assert "nothing.md" in missing.err


def test_documents_are_among_what_is_searched_at_once(home: Home) -> None:
    found = home.run("search", "計画", "--in", "documents", "--json")
    assert found.status == 0, found.err
    (hit,) = found.json["results"]
    assert (hit["kind"], hit["key"]) == ("documents", "plan.txt")
    assert home.run(*shlex.split(hit["open"])[1:]).out == "次の計画を書く。\n"
    assert "plan.txt" in home.run("search", "計画", "--in", "documents,pages").out


@pytest.mark.heavy("real commands, a hub and servers")
def test_a_long_document_is_read_whole(home: Home) -> None:
    text = "".join(f"line {number}\n" for number in range(60_000))
    (home.folder / "long.txt").write_text(text)
    assert home.run("docs", "put", "long.txt", "--id", "long.txt").status == 0
    assert home.run("docs", "get", "long.txt").out == text
    assert home.run("docs", "delete", "long.txt").out == "1 document deleted\n"


def test_documents_are_deleted_by_name_and_by_prefix(home: Home) -> None:
    for number in range(3):
        assert home.run("docs", "put", "-", "--id", f"gone/{number}", stdin="x").status == 0
    assert home.run("docs", "delete", "gone/0", "gone/nothing", "--json").json == {"deleted": 1}
    assert home.run("docs", "delete", "--prefix", "gone/", "--yes", "--json").json == {"deleted": 2}


def test_a_folder_is_added_and_what_could_not_be_used_is_told(home: Home) -> None:
    folder = home.folder / "folder"
    (folder / "sub").mkdir(parents=True)
    (folder / "a.md").write_text("# Plums")
    (folder / "sub" / "b.py").write_text("x = 1\n")
    (folder / "left out.log").write_text("no")
    (folder / "picture.png").write_bytes(b"\x89PNG")
    (folder / ".gitignore").write_text("*.log\n")
    add = ("docs", "add", "folder", "--relative", "--id-prefix", "f")
    first = home.run(*add)
    assert first.status == 0, first.err
    assert first.out.startswith("2 new, 0 changed, 0 unchanged, 0 removed; ")
    assert "1 file could not be used:" in first.err
    assert f"{folder / 'picture.png'}: " in first.err
    (folder / "a.md").unlink()
    again = home.run(*add, "--prune", "--ignore", "*.png", "--json").json
    assert (again["new"], again["unchanged"], again["removed"], again["bad"]) == (0, 1, 1, 0)
    assert [row[0] for row in home.run("docs", "list", "f/").rows] == ["f/sub/b.py"]
    assert home.run("docs", "delete", "--prefix", "f/", "--yes").status == 0


@pytest.mark.heavy("real commands, a hub and servers")
def test_a_watched_folder_is_followed_and_watched_again_after_a_restart(tmp_path: Path) -> None:
    home = with_model(tmp_path, model="none")
    folder = tmp_path / "watched"
    folder.mkdir()
    (folder / "a.md").write_text("first")
    with hub(home):
        watch = home.run("docs", "watch", "watched", "--relative")
        assert watch.status == 0, watch.err
        assert watch.out.startswith("1 new")
        (row,) = home.run("docs", "watch", "--list", "--json").json["results"]
        assert (row["path"], row["state"], row["files"]) == (str(folder), "watching", 1)
        (folder / "b.md").write_text("second, with a quince")
        _appears(home, "quince")
        assert home.run("restart").status == 0
        (folder / "c.md").write_text("third, with a medlar")
        _appears(home, "medlar")
        ended = home.run("docs", "watch", "--remove", "watched", "--prune")
        assert ended.out.splitlines()[-1] == "3 documents were removed."
        assert home.run("docs", "watch", "--list").rows == []


def _appears(home: Home, word: str) -> None:
    """Wait until a document is found by that word."""
    deadline = time.monotonic() + LONG
    while not home.run("docs", "search", word, "--mode", "lexical", "--json").json["count"]:
        assert time.monotonic() < deadline


@pytest.mark.heavy("real commands, a hub and servers")
def test_ctrl_c_cancels_what_is_being_added_and_the_same_command_goes_on(tmp_path: Path) -> None:
    home = with_model(tmp_path, model="none")
    folder = tmp_path / "many"
    folder.mkdir()
    for number in range(3000):
        (folder / f"{number}.md").write_text(f"# {number}\n\n" + "words and more words. " * 100)
    with hub(home):
        adding = subprocess.Popen(
            [sys.executable, "-m", "tabane", "docs", "add", str(folder)],
            env={**home.environment}, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        deadline = time.monotonic() + LONG
        while home.run("docs", "stats", "--json").json["documents"] < 50:
            assert time.monotonic() < deadline
        adding.send_signal(signal.SIGINT)
        _, said = adding.communicate(timeout=LONG)
        assert adding.returncode == 130, said
        assert "run the same command to continue" in said
        again = home.run("docs", "add", str(folder), "--json").json
        assert again["unchanged"] >= 50
        assert again["new"] + again["unchanged"] == 3000


@pytest.mark.skipif(importlib.util.find_spec("chromadb") is None, reason="the extra chroma is not installed")
def test_a_collection_of_chroma_is_taken_over(home: Home) -> None:
    folder = home.folder / "chroma_db"
    write = """
import chromadb, json, sys
made = chromadb.PersistentClient(sys.argv[1]).create_collection("documents")
rows = json.loads(sys.argv[2])
made.add(ids=[r[0] for r in rows], documents=[r[1] for r in rows], metadatas=[r[2] for r in rows],
         embeddings=[[1.0, 0.0, 0.0]] * len(rows))
"""
    dated = {"filepath": "chroma/a.md", "updated_at": "2025-11-03T10:00:00", "file_type": "jira", "points": 3}
    rows = [["chroma/a.md", "# Kumquats", dated], ["chroma/b.md", "犬", {"file_type": "spec"}]]
    environment = {**os.environ, "HOME": str(home.folder), "ANONYMIZED_TELEMETRY": "false"}
    subprocess.run([sys.executable, "-c", write, str(folder), json.dumps(rows)], check=True, env=environment)
    before = (folder / "chroma.sqlite3").read_bytes()
    done = home.run("docs", "import-chroma", "chroma_db")
    assert done.status == 0, done.err
    assert done.out.startswith("2 new")
    assert home.run("docs", "import-chroma", "chroma_db", "--json").json["unchanged"] == 2
    assert (folder / "chroma.sqlite3").read_bytes() == before
    found = home.run("docs", "get", "chroma/a.md", "--json").json
    assert found["document"] == "# Kumquats"
    assert found["metadata"]["points"] == 3
    assert found["metadata"]["file_type"] == "jira"
    assert found["metadata"]["updated_at"].startswith("2025-11-0")
    wrong = home.run("docs", "import-chroma", "chroma_db", "--collection", "other")
    assert (wrong.status, "documents" in wrong.err) == (2, True)
    assert home.run("docs", "delete", "--prefix", "chroma/", "--yes").status == 0


def test_what_is_no_collection_of_chroma_is_the_callers_mistake(home: Home) -> None:
    done = home.run("docs", "import-chroma", "nowhere")
    assert done.status == 2
    assert "chroma.sqlite3" in done.err or "Install it with: " in done.err
