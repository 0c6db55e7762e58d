"""Commands that change files of a running hub, and calls that show whether the hub uses the change."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tabane.guard.cages.cage import find_mechanisms
from tests.harness.bridge import BridgeClient
from tests.harness.home import Home
from tests.harness.user import Assistant

WRITING = str(Path(__file__).parents[1] / "harness" / "servers" / "writing.py")

Json = dict[str, Any]


class EditedHub:
    """A home with a running hub, a trusted-to-be project, and an assistant in its folder."""

    def __init__(self, home: Home, caller: Assistant) -> None:
        self.home, self._caller = home, caller
        self.stale: list[str] = []
        """Edits whose next call met the old state."""
        self.calls = 0

    def edit(self, *command: str, stdin: str = "") -> None:
        self.home.run(*command, stdin=stdin, cwd=self.home.folder / "project").succeeded  # noqa: B018

    def call(self, what: str, tool: str, fits: Callable[[Json], bool], **arguments: Any) -> None:
        """Call a tool of a server, and note ``what`` if the result does not fit the new state."""
        self.calls += 1
        if not fits(self._caller.call("call_tool", name=tool, arguments=arguments)):
            self.stale.append(what)

    def round(self) -> None:
        """Make each edit once, and a call right after it. The files are as before at the end."""
        self.switch()
        self.change()
        self.add_and_remove()
        self.trust()

    def switch(self) -> None:
        self.edit("servers", "disable", "kid")
        self.call("disable", "kid__echo", _fails)
        self.edit("servers", "enable", "kid")
        self.call("enable", "kid__echo", _works)

    def change(self) -> None:
        self.edit("servers", "override", "kid", "echo", "--fix", "text=fixed")
        self.call("override", "kid__echo", lambda result: "fixed" in _text(result))
        self.edit("servers", "override", "kid", "echo", "--reset")
        self.call("override --reset", "kid__echo", lambda result: "given" in _text(result), text="given")
        for value in ("first", "second"):
            self.edit("secrets", "set", "KID_TOKEN", "--stdin", stdin=value)
            self.call("secrets set", "kid__environment", lambda result: value in _text(result))  # noqa: B023
        if find_mechanisms(os.environ).suffice:
            path = str(self.home.folder / "note")
            self.edit("servers", "sandbox", "notes", "--preset", "files")
            self.call("sandbox files", "notes__write", _fails, path=path)
            self.edit("servers", "sandbox", "notes", "--preset", "none")
            self.call("sandbox none", "notes__write", _works, path=path)

    def add_and_remove(self) -> None:
        definition = self.home.child()
        self.edit("servers", "add", "more", "--no-try", "--", definition["command"], *definition["args"])
        self.call("add", "more__echo", _works)
        self.edit("servers", "remove", "more")
        self.call("remove", "more__echo", _fails)
        self.edit("servers", "import", "--from", str(self.home.folder / "others.json"), "--yes", "--no-try")
        self.call("import", "imported__echo", _works)
        self.edit("servers", "remove", "imported")

    def trust(self) -> None:
        self.edit("projects", "trust", "--yes")
        self.call("projects trust", "db__echo", _works)
        self.edit("projects", "forget")
        self.call("projects forget", "db__echo", _fails)


@contextmanager
def edited_hub(home: Home) -> Iterator[EditedHub]:
    """Run a hub with the servers ``kid`` and ``notes``, and an assistant in the folder of a project."""
    project = home.folder / "project"
    project.mkdir()
    (project / ".mcp.json").write_text(json.dumps({"mcpServers": {"db": home.child()}}))
    (home.folder / "others.json").write_text(
        json.dumps({"mcpServers": {"imported": home.child("--name", "imported")}})
    )
    notes = {"command": sys.executable, "args": [WRITING]}
    home.write_servers({"kid": home.child() | {"env": {"KID_TOKEN": "${KID_TOKEN:-}"}}, "notes": notes})
    client = BridgeClient(home.environment, cwd=project, forks=home.forks_hub)
    try:
        client.initialize()
        yield EditedHub(home, Assistant(client))
    finally:
        client.close()
        home.run("stop")


def _text(result: Json) -> str:
    return json.dumps(result["content"])


def _works(result: Json) -> bool:
    return not result.get("isError")


def _fails(result: Json) -> bool:
    return result.get("isError") is True
