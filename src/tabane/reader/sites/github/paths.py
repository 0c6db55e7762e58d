"""What lies at a path of a repository: a file or a folder, whatever the URL takes it for."""

from __future__ import annotations

import re
from dataclasses import replace

from tabane.errors import ReadError
from tabane.reader.page import Page
from tabane.reader.sites.github.addresses import Place
from tabane.reader.sites.github.answers import Entry
from tabane.reader.sites.github.api import Api
from tabane.reader.sites.github.files import of_entry, raw
from tabane.reader.sites.github.listings import of_entries

# Names that end where they seem to: no branch is likely to begin with one of these and a slash.
_SURE = re.compile(r"main|master|HEAD|trunk|develop|dev|gh-pages|[0-9a-f]{40}|v?\d+(?:\.\d+)+[\w.-]*")


async def folder(place: Place, api: Api) -> Page:
    """What is at a branch, tag or commit, where the URL says that it is a folder."""
    ref, path, found = await api.located(place.name, place.rest)
    if isinstance(found, Entry):
        return await of_entry(place, ref, found, api)
    return await of_entries(place, ref, path, found, api)


async def file(place: Place, api: Api) -> Page:
    """A file, at whatever branch. One request where the URL says where its branch ends: those of raw files
    are not counted. Else the API is asked for it, since it knows."""
    rest = place.rest[2:] if place.rest[:2] in (("refs", "heads"), ("refs", "tags")) else place.rest
    place = replace(place, rest=rest)
    if len(rest) > 1 and _SURE.fullmatch(rest[0]):
        try:
            return await raw(place, rest[0], "/".join(rest[1:]), api)
        except ReadError as error:
            if error.status != 404:
                raise
    try:
        ref, path, found = await api.located(place.name, rest)
    except ReadError as error:
        if error.cause != "rate" or len(rest) < 2:
            raise
        return await raw(place, rest[0], "/".join(rest[1:]), api)
    if isinstance(found, list):
        return await of_entries(place, ref, path, found, api)
    return await of_entry(place, ref, found, api)
