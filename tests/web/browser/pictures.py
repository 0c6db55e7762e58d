"""Pictures of the page: `python -m tests.web.browser.pictures`.

    --docs             those of the documents, into docs/images
    FOLDER [PATH …]    all pages, or those, into a folder: three widths, both themes, both languages
    --widths 390,1600  other widths          --langs en        --themes dark

The hub has the content of :mod:`tests.web.browser.filled`, so that a picture changes only if the page does.
"""

from __future__ import annotations

import argparse
import io
import shutil
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple, cast
from urllib.parse import quote_plus

from PIL import Image
from playwright.sync_api import Page, expect, sync_playwright

from tests.conftest import ROOT
from tests.harness.patience import wait_until
from tests.harness.user import assistant
from tests.reader.site import running
from tests.search.embedding import tiny
from tests.web.browser import filled
from tests.web.browser.conftest import chromium
from tests.web.browser.hub import WIDTHS, Language, Theme, WebBrowsers, WebHome, show

IMAGES = ROOT / "docs" / "images"
MOST_BYTES = 150_000
QUERY = "read messages"
MINUTE = 60
"""Rounds of work, one each second, that the charts show."""


class Picture(NamedTuple):
    """A picture of the documents."""

    name: str
    path: str
    lang: Language = "en"
    theme: Theme = "light"
    width: int = 1280
    height: int = 800


DOCS = (
    Picture("home-light", "/"),
    Picture("home-light-ja", "/", "ja"),
    Picture("activity-dark", "/activity", theme="dark"),
    Picture("search-light", f"/search?q={quote_plus(QUERY)}"),
    Picture("servers-dark", "/servers", theme="dark"),
)


@contextmanager
def filled_browsers() -> Iterator[WebBrowsers]:
    """Browsers at a hub that has everything."""
    folder = Path(tempfile.mkdtemp(prefix="tabane-pictures-"))
    home = WebHome(folder)
    filled.prepare(home, broken=False)
    home.environment["TABANE_MODEL"] = str(tiny.make(folder / "little"))
    try:
        with running() as site, sync_playwright() as playwright:
            filled.allow(home, site)
            home.start()
            filled.fill(home, site)
            browser = playwright.chromium.launch(executable_path=chromium())
            yield WebBrowsers(browser, home)
            browser.close()
    finally:
        home.run("stop")
        shutil.rmtree(folder, ignore_errors=True)


def settled(page: Page) -> None:
    """Wait until what the page loads by itself is there."""
    page.wait_for_load_state("load")
    expect(page.locator("#app")).to_have_attribute("aria-busy", "false")
    expect(page.locator(".htmx-request")).to_have_count(0)
    expect(page.locator("main")).not_to_contain_text("Searching…")
    page.wait_for_timeout(600)  # charts draw with the next frame, fonts of a new language load


def is_searched_by_meaning(home: WebHome) -> bool:
    """Return whether no result is missing because its vectors are not there yet."""
    return "warning" not in home.rpc("search_everything", query=QUERY)


def shrunk(png: bytes) -> bytes:
    """Return a picture as a PNG with a palette, which is a third as large."""
    image = Image.open(io.BytesIO(png)).convert("RGB")
    for colors in (256, 128, 64):
        out = io.BytesIO()
        image.quantize(colors, dither=Image.Dither.NONE).save(out, "PNG", optimize=True)
        if out.tell() <= MOST_BYTES:
            break
    return out.getvalue()


def write_docs(browsers: WebBrowsers) -> None:
    """Write the pictures of the documents, while an assistant is at work."""
    IMAGES.mkdir(exist_ok=True)
    wait_until(lambda: is_searched_by_meaning(browsers.home), "everything has its vectors")
    show(browsers.page(), "/activity")  # from now on, calls are recorded for the page
    browsers.home.must("policy", "allow", "chat__post_message>release")  # the assistant sends many
    with assistant(browsers.home) as someone:
        for _ in range(MINUTE):
            filled.work(someone)
            time.sleep(1)
        for picture in DOCS:
            page = browsers.page(
                lang=picture.lang, theme=picture.theme, width=picture.width, height=picture.height
            )
            show(page, picture.path)
            settled(page)
            data = shrunk(page.screenshot())
            (IMAGES / f"{picture.name}.png").write_bytes(data)
            print(f"{picture.name}: {len(data):,} bytes")
            page.context.close()


def write_all(
    browsers: WebBrowsers,
    folder: Path,
    paths: Sequence[str],
    looks: Sequence[tuple[Language, Theme]],
    widths: Sequence[int],
) -> None:
    """Write a picture of each page in each look and width."""
    folder.mkdir(parents=True, exist_ok=True)
    for lang, theme in looks:
        page = browsers.page(lang=lang, theme=theme)
        for path in paths:
            show(page, path)
            settled(page)
            name = path.strip("/").partition("?")[0].replace("/", "-") or "home"
            for width in widths:
                page.set_viewport_size({"width": width, "height": 900})
                page.screenshot(path=folder / f"{name}-{lang}-{theme}-{width}.png", full_page=True)
        page.context.close()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", nargs="?", type=Path)
    parser.add_argument("paths", nargs="*")
    parser.add_argument("--docs", action="store_true")
    parser.add_argument("--widths", default=",".join(map(str, WIDTHS)))
    parser.add_argument("--langs", default="en,ja")
    parser.add_argument("--themes", default="light,dark")
    given = parser.parse_args()
    expect.set_options(timeout=30_000)
    with filled_browsers() as browsers:
        if given.docs:
            write_docs(browsers)
        if given.folder:
            looks = [
                (cast("Language", lang), cast("Theme", theme))
                for lang in given.langs.split(",")
                for theme in given.themes.split(",")
            ]
            widths = [int(width) for width in given.widths.split(",")]
            write_all(browsers, given.folder, given.paths or filled.PATHS, looks, widths)
        print("\n".join(dict.fromkeys(browsers.close())))


if __name__ == "__main__":
    main()
