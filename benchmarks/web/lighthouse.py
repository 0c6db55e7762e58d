"""Lighthouse scores of the pages: python -m benchmarks.web.lighthouse FOLDER [PATH…]

FOLDER is where ``npm install lighthouse`` was run. The browser is signed in before, since Lighthouse cannot:
its secrets are in the browser's storage, which Lighthouse is told to keep.
"""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.report import table
from benchmarks.web.first_view import PATHS, chromium, root, running
from playwright.sync_api import sync_playwright

CATEGORIES = ("performance", "accessibility", "best-practices")
TIMES = ("first-contentful-paint", "largest-contentful-paint", "total-blocking-time", "interactive")
HEADS = ("page", *CATEGORIES, *(name.replace("-", " ") for name in TIMES))


def scores(lighthouse: Path, url: str, port: int, folder: Path) -> tuple[str, ...]:
    """Return the scores of a page from 0 to 100, and its times."""
    result = folder / "result.json"
    command = [
        *("node", str(lighthouse / "node_modules/lighthouse/cli/index.js"), url, f"--port={port}"),
        *("--disable-storage-reset", "--preset=desktop", f"--only-categories={','.join(CATEGORIES)}"),
        *("--output=json", f"--output-path={result}", "--quiet"),
    ]
    subprocess.run(command, check=True, capture_output=True)
    found: dict[str, Any] = json.loads(result.read_text(encoding="utf-8"))
    rated = (f"{100 * found['categories'][name]['score']:.0f}" for name in CATEGORIES)
    return *rated, *(found["audits"][name]["displayValue"].replace("\xa0", " ") for name in TIMES)


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


def main(arguments: list[str]) -> None:
    lighthouse = Path(arguments[0])
    port = free_port()
    with (
        tempfile.TemporaryDirectory(prefix="bench-") as folder,
        running(Path(folder, "hub")) as hub,
        sync_playwright() as playwright,
    ):
        browser = playwright.chromium.launch_persistent_context(
            str(Path(folder, "profile")),
            executable_path=chromium(),
            args=[f"--remote-debugging-port={port}"],
        )
        page = browser.new_page()
        page.goto(hub.tabane("open", "--print").strip())
        page.wait_for_selector("#main .content")
        page.goto("about:blank")
        rows = []
        for path in arguments[1:] or PATHS:
            row = (path, *scores(lighthouse, root(hub) + path, port, Path(folder)))
            print(*row, file=sys.stderr)  # a page takes some 15 seconds
            rows.append(row)
        browser.close()
    print(table(HEADS, rows))


if __name__ == "__main__":
    main(sys.argv[1:])
