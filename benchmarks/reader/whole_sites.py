"""A whole site read by a hub, in one go and while the hub is killed at random moments.

    python -m benchmarks.reader.whole_sites [--pages COUNT] [--kills COUNT]

The site is served on loopback by this process, which counts the requests. A page counts as read twice if it
was requested again, unless it was the last request before a kill: then its answer may have been under way.
It counts as lost if the site ended without it. Then the site is read again, with a few pages changed.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import signal
import tempfile
import threading
import time
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from benchmarks.hub import HubProcess

CHANGED = 5
"""Pages that change before the site is read again."""


LONGEST_WAIT = 30.0
"""Seconds for the first pages of a hub that is going to be killed."""


class CountedSite(ThreadingHTTPServer):
    """A folder of ``pages`` pages, each with links to the next ten and to the start page.

    ``asked`` counts requests by path, ``answers`` by status. ``edition`` of a page is part of its text.
    """

    daemon_threads = True

    def __init__(self, pages: int) -> None:
        super().__init__(("127.0.0.1", 0), _Answering)
        self.pages, self.asked, self.answers = pages, Counter[str](), Counter[int]()
        self.edition = Counter[int]()
        self.last = ""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/guide/"

    def body(self, path: str) -> bytes | None:
        name = path.removeprefix("/guide/").removesuffix(".html") or "0"
        if not path.startswith("/guide/") or not name.isdigit() or int(name) >= self.pages:
            return None
        number = int(name)
        near = range(number * 10 + 1, min(number * 10 + 11, self.pages))
        links = "".join(f"<li><a href='/guide/{each}.html'>Part {each}</a>" for each in near)
        words = f"Part {number}, edition {self.edition[number]}, is about the number {number}. " * 30
        text = (
            f"<h1>Part {number}</h1><p>{words}</p><nav><ul>{links}<li><a href='/guide/'>Home</a></ul></nav>"
        )
        return f"<!doctype html><title>Part {number}</title><main>{text}</main>".encode()


class _Answering(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: CountedSite

    def do_GET(self) -> None:
        site, body = self.server, self.server.body(self.path)
        tag = f'"{hashlib.blake2s(body, digest_size=8).hexdigest()}"' if body else ""
        status = 404 if body is None else 304 if self.headers["If-None-Match"] == tag else 200
        site.asked[self.path] += 1
        site.last = self.path
        site.answers[status] += 1
        sent = body if status == 200 and body is not None else b""
        self.send_response(status)
        for name, value in (("Content-Type", "text/html"), ("ETag", tag), ("Content-Length", str(len(sent)))):
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(sent)

    def log_message(self, format: str, *args: object) -> None:
        return None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pages", type=int, default=200)
    parser.add_argument("--kills", type=int, default=20)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        for name, kills in (("whole", 0), ("killed", options.kills)):
            site = CountedSite(options.pages)
            threading.Thread(target=site.serve_forever, daemon=True).start()
            hub = HubProcess(Path(folder) / name, TABANE_READER_ALLOW="127.0.0.1")
            print(f"{name}, {kills} kills: {_read(site, hub, kills)}", flush=True)
            for number in range(1, CHANGED + 1):
                site.edition[number] += 1
            site.asked.clear()
            site.answers.clear()
            print(f"{name}, again with {CHANGED} pages changed: {_read(site, hub, 0)}", flush=True)
            hub.stop()


def _read(site: CountedSite, hub: HubProcess, kills: int) -> str:
    """Read the site to its end, and say what that took."""
    began, chance = time.monotonic(), random.Random(45)
    under_way = Counter[str]()
    command = ("read", "--site", site.url, "--limit", str(2 * site.pages), "--remember")
    for _ in range(kills):
        hub.tabane(*command, "--detach")
        hub.note_status()
        before, until = site.answers.total(), time.monotonic() + LONGEST_WAIT
        while site.answers.total() < before + 4 and time.monotonic() < until:
            time.sleep(0.01)
        time.sleep(chance.uniform(0.0, 2.0))
        os.kill(hub.pid, signal.SIGKILL)
        under_way[site.last] += 1
    left = sum(1 for count in site.asked.values() if count)
    report = json.loads(hub.tabane(*command, "--json"))
    hub.note_status()
    pages = {
        path: count for path, count in site.asked.items() if path.startswith("/guide/") and "xml" not in path
    }
    again = sum(min(count - 1, under_way[path]) for path, count in pages.items())
    twice = sum(count - 1 for count in pages.values()) - again
    read = report["new"] + report["changed"] + report["unchanged"]
    return (
        f"{time.monotonic() - began:.0f} s, {sum(pages.values()) / len(pages):.3f} requests a page, "
        f"{left} paths asked for before the last run, under way at a kill and requested again {again}, "
        f"twice {twice}, lost {site.pages - read}; "
        f"new {report['new']}, changed {report['changed']}, unchanged {report['unchanged']}, "
        f"saved {report['saved']}; answers {dict(site.answers)}"
    )


if __name__ == "__main__":
    main()
