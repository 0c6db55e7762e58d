"""The world of the tasks on disk: folders, a database, a repository, a memory, and a site for pages."""

from __future__ import annotations

import contextlib
import csv
import os
import random
import shutil
import sqlite3
import subprocess
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from benchmarks.code_tasks.world_files import WorldFiles
from benchmarks.code_tasks.world_records import WorldRecords

SEED = 24
FIRST_COMMIT = 1_767_600_000
"""Seconds since 1970: in January 2026. A commit follows each day."""

NEWEST = "reports/2026-08.md"
"""The file that was changed last. Others in its folder are older by days."""


class World:
    """``folder`` is that of the files on disk, ``site`` the address of the pages."""

    def __init__(self, folder: Path, site: str = "") -> None:
        chance = random.Random(SEED)
        self.files, self.records = WorldFiles(chance), WorldRecords(chance)
        self.folder, self.site = folder, site
        self.notes, self.repository = folder / "notes", folder / "repository"
        self.memory, self.database = folder / "memory.jsonl", folder / "shop.db"

    def make(self) -> None:
        """Write everything."""
        self.folder.mkdir()
        self.notes.mkdir()
        self._database(self.folder / "shop.template.db")
        self._repository()
        with (self.folder / "posts.csv").open("w", newline="", encoding="utf-8") as file:
            rows = csv.writer(file, quoting=csv.QUOTE_ALL)
            for post in self.records.posts:
                address = f"https://x.com/{post.author}/status/{post.id}"
                rows.writerow([post.id, address, post.time, post.text, 1])
        self.reset()

    def reset(self) -> None:
        """Undo what a task has changed on disk. The folders stay, because servers have them open."""
        for each in self.notes.iterdir():
            shutil.rmtree(each) if each.is_dir() else each.unlink()
        for number, (name, text) in enumerate(self.files.texts.items()):
            file = self.notes / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
            changed = FIRST_COMMIT + (10_000_000 if name == NEWEST else number * 3600)
            os.utime(file, (changed, changed))
        self.memory.write_text("".join(f"{line}\n" for line in self.records.memory), encoding="utf-8")
        shutil.copyfile(self.folder / "shop.template.db", self.database)

    def _database(self, path: Path) -> None:
        with contextlib.closing(sqlite3.connect(path)) as base, base:
            base.execute(
                "CREATE TABLE issues (id INTEGER PRIMARY KEY, title TEXT, state TEXT, label TEXT,"
                " assignee TEXT, opened TEXT, body TEXT)"
            )
            base.execute("CREATE TABLE customers (id INTEGER PRIMARY KEY, name TEXT, city TEXT)")
            base.execute(
                "CREATE TABLE orders (id INTEGER PRIMARY KEY, customer_id INTEGER, month INTEGER,"
                " amount INTEGER, note TEXT)"
            )
            base.executemany("INSERT INTO issues VALUES (?, ?, ?, ?, ?, ?, ?)", self.records.issues)
            base.executemany("INSERT INTO customers VALUES (?, ?, ?)", self.records.customers)
            base.executemany("INSERT INTO orders VALUES (?, ?, ?, ?, ?)", self.records.orders)

    def _repository(self) -> None:
        self.repository.mkdir()
        environment = {**os.environ, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
        git = ["git", "-C", str(self.repository)]
        quiet = {"env": environment, "check": True, "capture_output": True}
        subprocess.run([*git, "init", "--quiet", "--initial-branch=main"], **quiet)  # type: ignore[call-overload]
        parts = []
        for number, commit in enumerate(self.records.commits):
            text = "".join(f"line {line} of part {number}\n" for line in range(30)) + commit.message
            when = f"{commit.author} <{commit.author}@example.com> {FIRST_COMMIT + number * 86_400} +0000"
            parts.append(
                f"commit refs/heads/main\nauthor {when}\ncommitter {when}\n"
                f"data {len(commit.message)}\n{commit.message}\n"
                f"M 100644 inline {commit.path}\ndata {len(text)}\n{text}\n"
            )
        subprocess.run([*git, "fast-import", "--quiet"], input="".join(parts).encode(), **quiet)  # type: ignore[call-overload]
        subprocess.run([*git, "reset", "--hard", "--quiet"], **quiet)  # type: ignore[call-overload]


@contextlib.contextmanager
def served(pages: dict[str, str]) -> Iterator[str]:
    """Serve pages on the loopback in this block. Give the address."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = pages.get(self.path, "").encode()
            self.send_response(200 if body else 404)
            self.send_header("Content-Type", "text/html; charset=utf-8")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            return None

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
