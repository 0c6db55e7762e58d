"""Check-up in a process of its own, for a running hub: lines of JSON, two for each section.

``python -m tabane.hub.doctor LANG check|full [online]`` prints sections; ``… LANG fix [ID]`` fixes one
finding or all.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import sys
from collections.abc import Callable, Mapping
from typing import Any

from tabane.build import this_build
from tabane.errors import HubError
from tabane.hub.doctor import checkup
from tabane.hub.doctor.installation import DoctorFinding, Installation, examine
from tabane.hub.local import lock
from tabane.hub.local.client import connect
from tabane.hub.local.connector import HubConnector
from tabane.hub.local.endpoint import Endpoint, here, home_of
from tabane.hub.local.handshake import Hello
from tabane.messages import Lang, language
from tabane.messages.page_words import for_page

_PROGRAMS = "tabane|chmod|chown|rm|kill|pip|uv|command"
_command = re.compile(rf"(?:^|: )((?:{_PROGRAMS}) [^:]*?)(?:, then .*|\.)?$").search


def main(arguments: list[str]) -> None:
    """Run what the arguments say, and print it."""
    lang, action, *rest = arguments
    spoken = language(lang)
    look = _look(os.environ, spoken)
    if action == "fix":
        _print(_fixed(look, rest[0] if rest else "", spoken))
        return
    sections = [*checkup.SECTIONS]
    if action == "full":
        sections += [checkup.NETWORK, checkup.AUTHORIZATION, checkup.SERVERS]
    sites = rest == ["online"]
    if sites:
        sections += [checkup.SITES] if action == "full" else [checkup.NETWORK, checkup.SITES]
    installation = look()
    if checkup.NETWORK in sections:
        installation = checkup.with_network(installation, sites=sites)
    for section in sections:
        title = section.title.render(spoken)
        _print({"begins": title, "sections": len(sections)})
        found = checkup.findings(section, installation)
        _print(
            {
                "section": section.name,
                "title": title,
                "findings": [finding_row(finding, spoken) for finding in found],
            }
        )


def finding_row(finding: DoctorFinding, lang: Lang) -> dict[str, Any]:
    """Return a finding, with the id of its fix, the command of its advice, and its section of the manual.

    ``advice`` is ``mend`` without shell commands, for the web page.
    """
    command = _command(finding.mend.render("en")) if finding.mend else None
    return {
        "level": finding.level,
        "title": finding.title.render(lang),
        "mend": finding.mend.render(lang) if finding.mend else None,
        "advice": finding.mend.render(for_page(lang)) if finding.mend else None,
        "command": command[1] if command else None,
        "help": finding.help,
        "fix": fix_id(finding) if finding.fix else None,
    }


def fix_id(finding: DoctorFinding) -> str:
    """Return the id of the fix of a finding: the same as long as the finding says the same."""
    return hashlib.sha256(finding.title.render("en").encode()).hexdigest()[:16]


def _look(environ: Mapping[str, str], lang: Lang) -> Callable[[], Installation]:
    endpoint = Endpoint(home_of(environ), environ)
    hello = Hello(
        version=this_build().name,
        role="rpc",
        home=endpoint.home,
        pid=os.getpid(),
        cwd=here(),
        lang=lang,
        client="tabane doctor",
        servers=None,
        code=this_build().code,
    )

    def look() -> Installation:
        if not lock.held(endpoint.lock):
            return examine(environ, None, None)
        try:
            with connect(HubConnector(endpoint, hello, environ, None, lock.HAND), lang) as hub:
                return examine(environ, hub, None)
        except HubError as error:
            return examine(environ, None, error)

    return look


def _fixed(look: Callable[[], Installation], wanted: str, lang: Lang) -> dict[str, Any]:
    if not wanted:
        _, repairs = checkup.repair(look)
    else:
        repairs = checkup.repair_one(look(), lambda finding: fix_id(finding) == wanted)
    return {
        "fixed": [finding.title.render(lang) for finding in repairs.done],
        "not_fixed": [
            {"title": finding.title.render(lang), "reason": reason} for finding, reason in repairs.failed
        ],
    }


def _print(value: dict[str, Any]) -> None:
    print(json.dumps(value), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
