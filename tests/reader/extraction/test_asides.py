"""Parts beside the content are left out, and what looks like them but is content is kept."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from tabane.reader.extraction.article import extract
from tabane.reader.extraction.asides import asides
from tabane.reader.extraction.content import cut
from tabane.reader.extraction.html_tree import parsed
from tabane.reader.extraction.metadata import declared

PAGES: dict[str, dict[str, str]] = tomllib.loads(Path(__file__).with_name("asides.toml").read_text("utf-8"))
TEXTS = {
    "{STORY}": (
        "<p>The station stood on the roof of the old mill for nine years, where nothing shaded it and hardly"
        " anybody could reach it, until the roof began to leak and the beams below it were wet.</p>"
        "<p>Then it was moved to the meadow behind the school, which is lower, wetter and far more sheltered,"
        " so that every reading has to be compared with care before it is written down.</p>"
        "<p>Nobody knows who read it in the first winter, because the book of that year was lost, and the"
        " one that followed it begins with a page that has neither a name nor a date.</p>"
    ),
    "{TALK1}": (
        "I have been up there with my brother when we were children, and what I remember is the smell of"
        " the flour, the dust in the light, and that nobody ever asked us what we were doing there."
    ),
    "{TALK2}": (
        "You should look at the tiles on the north side first. Ours were broken by frost, and the water ran"
        " along a beam for ten meters before it came through, so we searched in the wrong place for weeks."
    ),
    "{TALK3}": (
        "Does anyone know what it costs to have the whole roof done in slate? The two offers that I have are"
        " so far apart that one of them must be a mistake, and I would like to know which one it is."
    ),
    "{TALK4}": (
        "That is not what the book says. It was the other mill that burned down, the one at the bridge, and"
        " the year was 1911; there is a photograph of it in the town hall, next to the stairs."
    ),
    "{物語}": (
        "<p>観測所は九年のあいだ古い水車小屋の屋根の上にあり、日をさえぎるものは何もなく、屋根が雨漏りを始めるまで、ほとんど誰もそこへ登ることができなかった。</p>"
        "<p>その後、観測所は学校の裏の草地へ移された。そこは低く、湿っていて、風もあまり当たらないため、測った値はどれも注意して比べなければならない。</p>"
        "<p>最初の冬に誰が観測していたのかは分かっていない。その年の帳面は失われ、次の帳面は名前も日付もない頁から始まっているからである。</p>"
    ),
}


def page(name: str) -> str:
    case = PAGES[name]
    body = case["body"]
    for mark, text in TEXTS.items():
        body = body.replace(mark, text)
    return (
        f"<html lang={case.get('lang', 'en')} {case.get('attributes', '')}><head><title>{name}</title>"
        f"{case.get('head', '')}</head><body><header><a href=/>Home</a></header>"
        "<nav><a href=/a>News</a><a href=/b>About</a></nav>"
        f"{body}<footer><p>© Mill</p></footer></body></html>"
    )


@pytest.mark.parametrize("name", PAGES)
def test_what_is_beside_the_content_does_not_come_out(name: str) -> None:
    assert re.findall(r"\bDROP\d+", extract(page(name), "https://site.example/a/page").markdown) == []


@pytest.mark.parametrize("name", PAGES)
def test_content_is_not_taken_for_something_beside_it(name: str) -> None:
    cutting, _ = cut(parsed(page(name)))
    beside = asides(cutting, declared(cutting.boxes[0].element))
    marked = " ".join(block.text for block, out in zip(cutting.blocks, beside, strict=True) if out)
    assert re.findall(r"\bKEEP\d+", marked) == []


def test_each_list_of_a_page_of_many_is_found() -> None:
    part = "<div><div><h2>Related articles</h2><ul><li><a href=/a>A</a></ul></div>"
    cutting, _ = cut(parsed(f"<body><article><p>{TEXTS['{TALK1}'] * 3}</p></article>{part * 300}</body>"))
    assert sum(asides(cutting)) == 600
