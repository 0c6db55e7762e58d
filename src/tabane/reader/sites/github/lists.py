"""Lists of issues and pull requests, as a search finds them."""

from __future__ import annotations

import re
from urllib.parse import parse_qs

from tabane.messages import say
from tabane.reader.page import Page
from tabane.reader.sites.github.addresses import Place
from tabane.reader.sites.github.answers import Found, Issue, Label
from tabane.reader.sites.github.api import PAGE, Api
from tabane.reader.sites.github.as_markdown import SITE, blocks, login, numbered

_WHERE = re.compile(r"\b(?:repo|org|user):\S+")


async def issues(place: Place, api: Api) -> Page:
    """The open ones, newest first, or those that the URL's own query asks for: at most a hundred."""
    kind = "pr" if place.rest == ("pulls",) else "issue"
    asked = parse_qs(place.query)
    wanted = _WHERE.sub("", asked.get("q", [""])[0]).strip()[:200] or f"is:{kind} is:open"
    if not re.search(r"\b(?:is|type):(?:issue|pr)\b", wanted):
        wanted = f"is:{kind} {wanted}"
    number = asked.get("page", ["1"])[0]
    number = number if re.fullmatch(r"[1-9]\d?", number) else "1"
    found = await api.get(
        "/search/issues", Found, q=f"repo:{place.name} {wanted}", per_page=PAGE, page=number
    )
    what = "pulls" if kind == "pr" else "issues"
    shown = len(found.items)
    warning = say("{shown} of {all} entries are here.", shown=shown, all=found.total_count)
    return Page(
        f"{api.endpoints.site}/{place.name}/{what}" + (f"?{place.query}" if place.query else ""),
        blocks(
            f"# {what.capitalize()} of {place.name}",
            f"{numbered(found.total_count, 'result')} for `{wanted}`",
            "\n".join(_line(each) for each in found.items),
        ),
        title=f"{what.capitalize()} · {place.name}",
        site=SITE,
        way="github",
        share=1.0,
        warnings=(warning,) if found.total_count > shown else (),
    )


def _line(each: Issue) -> str:
    names = (one.name if isinstance(one, Label) else one for one in each.labels)
    labels = ", ".join(name for name in names if name)
    marks = [each.state, login(each.user), each.created_at[:10], numbered(each.comments, "comment"), labels]
    title = " ".join(each.title.split())
    return f"- [#{each.number} {title}]({each.html_url}) ({' · '.join(filter(None, marks))})"
