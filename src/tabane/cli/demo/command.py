"""`tabane demo`: real servers in a temporary home, used step by step; each step is checked."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import click

from tabane import __version__
from tabane.cli.bench.temporary_hub import (
    Assistant,
    NoAnswer,
    interruptible,
    kill,
    marked,
    own_environment,
    wait_until_gone,
    write_private_text,
)
from tabane.cli.demo.source_steps import (
    VARIABLE,
    DemoDatabase,
    DemoSite,
    DocumentsChapter,
    PagesChapter,
    PostsChapter,
)
from tabane.cli.demo.steps import (
    DemoPage,
    SampleServer,
    ToolsChapter,
    duration,
    fetch,
    sample_servers,
    write_samples,
    write_servers_file,
)
from tabane.cli.options import option, with_json
from tabane.cli.output import DONE, FAILED, Command, Terminal, examples, lang
from tabane.hub.stores.postgres_engine import TemporarySchema
from tabane.messages import say
from tabane.settings import load_settings

TABANE = (sys.executable, "-m", "tabane")
STOPPING = 20.0
"""Time limit for the hub and its servers to stop, in seconds."""


@click.command(
    "demo",
    cls=Command,
    help=say(
        "Show what Tabane does, with real servers from PyPI and npm: start a hub in a "
        "temporary home; search, read a schema and call tools as an assistant would; check "
        "each step; and stop all processes. The first run downloads the servers."
    ),
    epilog=examples(
        "tabane demo",
        "tabane demo --keep",
        "tabane demo --engine 'postgresql://me@/test?host=/run/postgresql'",
    ),
)
@option("--keep", is_flag=True, help=say("Keep the folder with the servers file and the data."))
@option(
    "--engine",
    metavar="URL",
    help=say(
        "Keep posts, documents and pages in this PostgreSQL database instead of files: in a schema of its "
        "own, which is deleted afterwards. The URL is as in the setting engine."
    ),
)
@with_json
def demo(terminal: Terminal, keep: bool, engine: str | None) -> None:
    page = DemoPage(lang(), silent=terminal.json)
    database = _database(page, engine) if engine else None
    with interruptible():
        Demo(page, keep, database).run()
    if terminal.json:
        terminal.print_json({"steps": page.steps, "failures": page.failures})
    sys.exit(FAILED if page.failures else DONE)


def _database(page: DemoPage, engine: str) -> DemoDatabase:
    """Return the database, with the password from the user's own settings. Raises ConfigurationError."""

    return DemoDatabase(page, TemporarySchema(engine, load_settings({}, os.environ), os.environ))


class Demo:
    """A run of the demo: its folder, its environment, and the mark of its processes."""

    def __init__(self, page: DemoPage, keep: bool, database: DemoDatabase | None = None) -> None:
        self._page = page
        self._keep = keep
        self._database = database
        self._folder = Path(tempfile.mkdtemp(prefix="tabane-demo-"))
        self._mark = self._folder.name
        self._environ = own_environment(self._folder, self._mark)
        write_private_text(self._folder / "tabane.toml", "")
        self._assistants: list[Assistant] = []
        self._closed = False

    def run(self) -> None:
        """Run all steps. In any case, end the demo's processes and delete its folder."""
        began = time.monotonic()
        try:
            self._page.say(say("Tabane {version}: one hub in front of real servers", version=__version__))
            self._tell()
            self._leave()
            self._end(time.monotonic() - began)
        finally:
            self._clean_up()

    def _tell(self) -> None:
        if self._database is not None:
            if not self._database.create():
                return
            self._environ[VARIABLE] = self._database.url
        samples = self._fetched()
        if not samples:
            self._page.failed("PyPI, npm", say("No server could be started, so there is nothing to show."))
            return
        write_servers_file(self._folder / "mcp-servers.json", samples, self._mark)
        try:
            with DemoSite() as site:
                settings = Path(self._environ["TABANE_CONFIG"])
                # The assistant reads documents and pages in turns, and nobody is there to approve a call.
                text = f'reader_allow = ["{site.allowed}"]\nflow_policy = "off"\n'
                if self._database is not None:
                    text += f'engine = "${{{VARIABLE}}}"\n'
                settings.write_text(text, encoding="utf-8")
                servers = [sample.name for sample in samples]
                self._page.chapter(say("One hub, started by the first assistant that connects"))
                assistant = self._assistant()
                self._page.done("tabane mcp", say("first answer"), assistant.open(timeout=60))
                whole = self._assistant("--mode", "full")
                self._page.done(
                    "tabane mcp --mode full", say("the same hub in another mode"), whole.open(timeout=60)
                )
                chapter = ToolsChapter(self._page, assistant, servers, self._folder, self._explain)
                chapter.listing(whole)
                chapter.searches()
                chapter.schema()
                chapter.calls()
                PostsChapter(self._page, assistant, self._run).tell()
                DocumentsChapter(self._page, assistant, self._run, self._folder).tell()
                PagesChapter(self._page, assistant, site).tell()
        except NoAnswer as error:
            self._page.failed("tabane mcp", error.message)
            log = self._folder / "bridge.log"
            lines = log.read_text("utf-8", "replace").splitlines() if log.exists() else []
            self._page.aside("\n".join(lines[-5:]))

    def _fetched(self) -> list[SampleServer]:
        self._page.chapter(say("Real servers from PyPI and npm (the first run downloads them)"))
        write_samples(self._folder)
        samples = sample_servers(self._folder, self._environ.get("PATH", os.defpath))
        for sample in samples:
            if sample.missing:
                self._page.skipped(sample.program, say("{reason}: skipped", reason=sample.missing))
        wanted = [sample for sample in samples if not sample.missing]
        ready = []
        for fetched in fetch(wanted, self._folder, self._environ, self._page.waiting):
            sample = fetched.sample
            if fetched.failure:
                self._page.failed(sample.program, fetched.failure)
            else:
                self._page.done(sample.program, f"{sample.registry} {sample.version}", fetched.seconds)
                ready.append(sample)
        return ready

    def _assistant(self, *options: str) -> Assistant:
        log = str(self._folder / "bridge.log")
        self._assistants.append(Assistant((*TABANE, "mcp", *options), self._environ, log))
        return self._assistants[-1]

    def _leave(self) -> None:
        """Close the assistants, stop the hub, and look for processes that are left."""
        self._page.chapter(say("It leaves no process running"))
        running = marked(self._mark)
        began = time.monotonic()
        closed = [assistant.close() for assistant in self._assistants]
        self._closed = True
        stopped = self._stop_hub()
        if left := wait_until_gone(self._mark, STOPPING):
            names = ", ".join(f"{name} ({pid})" for pid, name in left.items())
            self._page.failed("tabane stop", say("still running: {names}", names=names))
        elif not all(closed) or stopped:
            self._page.failed("tabane stop", stopped or say("A bridge process had to be killed"))
        else:
            text = say("{count} {count:process|processes} ran, none is left", count=len(running))
            self._page.done("tabane stop", text, time.monotonic() - began)
        self._leave_database()

    def _leave_database(self) -> None:
        """Delete the data in the database, unless it is to be kept. No hub uses it any more."""
        if self._database is not None and self._keep:
            self._database.keep()
        elif self._database is not None:
            self._database.drop()

    def _stop_hub(self) -> str:
        """Return the error of `tabane stop`, or an empty text."""
        try:
            done = self._ended("stop", timeout=STOPPING)
        except subprocess.TimeoutExpired:
            late = say("tabane stop did not end within {seconds:.0f} s", seconds=STOPPING)
            return late.render(self._page.lang)
        return "" if done.returncode == 0 else done.stderr.strip() or f"exit {done.returncode}"

    def _ended(self, *command: str, timeout: float | None = None) -> subprocess.CompletedProcess[str]:
        """Run a command of tabane in the environment of the demo, and wait for its end."""
        return subprocess.run(
            [*TABANE, *command],
            env=self._environ,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )

    def _run(self, *command: str) -> Any:
        """Return the JSON output of a command. Raises NoAnswer if the command fails."""
        done = self._ended(*command, "--json")
        if done.returncode:
            raise NoAnswer(
                say("{tool} failed: {text}", tool=f"tabane {' '.join(command)}", text=done.stderr.strip())
            )
        return json.loads(done.stdout)

    def _explain(self, server: str) -> str:
        """Return the error or state that the hub reports for a server."""
        asked = self._ended("rpc", "list_servers")
        if asked.returncode:
            return asked.stderr.strip()
        rows = json.loads(asked.stdout)["results"]
        return next((str(row["error"] or row["state"]) for row in rows if row["name"] == server), "")

    def _end(self, seconds: float) -> None:
        self._page.blank()
        if self._page.failures and self._keep:
            self._page.say(say("{count} {count:step|steps} failed.", count=self._page.failures))
        elif self._page.failures:
            self._page.say(
                say(
                    "{count} {count:step|steps} failed. To keep the logs, run it with --keep.",
                    count=self._page.failures,
                )
            )
        else:
            self._page.say(say("All of the above was done in {time}.", time=duration(seconds)))
        if self._keep:
            self._page.say(
                say(
                    "The folder was kept, so you can try: TABANE_HOME={home} TABANE_CONFIG={config} "
                    "tabane tools list",
                    home=self._environ["TABANE_HOME"],
                    config=self._environ["TABANE_CONFIG"],
                )
            )

    def _clean_up(self) -> None:
        # another Ctrl+C must not prevent the cleanup
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        for assistant in [] if self._closed else self._assistants:
            assistant.close()
        if marked(self._mark):
            self._stop_hub()
            kill(wait_until_gone(self._mark, STOPPING))
        self._leave_database()
        if not self._keep:
            shutil.rmtree(self._folder, ignore_errors=True)
