"""The labels of tabs stand at their panes, whoever made the page."""

from __future__ import annotations

import pytest

from tabane.reader.extraction.article import extract
from tests.reader.extraction.test_extracting import URL, article

ONE, TWO = "<pre><code>npm install kettle</code></pre>", "<pre><code>yarn add kettle</code></pre>"
CASES = {
    "roles with references": (
        '<div><div role="tablist"><button role="tab" aria-controls="p1">npm</button>'
        '<button role="tab" aria-controls="p2">Yarn</button></div><div role="tabpanel" id="p1">{one}</div>'
        '<div role="tabpanel" id="p2" hidden>{two}</div></div>'
    ),
    "panes that name their tabs": (
        '<div role="tablist"><button id="t1">npm</button><button id="t2">Yarn</button></div>'
        '<div role="tabpanel" aria-labelledby="t1">{one}</div>'
        '<div role="tabpanel" aria-labelledby="t2">{two}</div>'
    ),
    "Docusaurus": (
        '<div class="tabs-container"><ul role="tablist"><li role="tab" class="item">npm</li>'
        '<li role="tab" class="item">Yarn</li></ul><div><div role="tabpanel" class="t">{one}</div>'
        '<div role="tabpanel" class="t" hidden>{two}</div></div></div>'
    ),
    "sphinx-design": (
        '<div class="tab-set"><input type="radio" id="a1" checked><label class="tab-label" for="a1">npm'
        '</label><div class="tab-content">{one}</div><input type="radio" name="s" id="a2">'
        '<label class="tab-label" for="a2">Yarn</label><div class="tab-content">{two}</div></div>'
    ),
    "Material for MkDocs": (
        '<div class="tabbed-set"><input type="radio" name="s" id="a1"><input type="radio" name="s" id="a2">'
        '<div class="tabbed-labels"><label for="a1">npm</label><label for="a2">Yarn</label></div>'
        '<div class="tabbed-content"><div class="block">{one}</div><div class="block">{two}</div>'
        "</div></div>"
    ),
    "VitePress": (
        '<div class="vp-code-group"><div class="tabs"><input type="radio" id="a1"><label for="a1">npm'
        '</label><input type="radio" name="g" id="a2"><label for="a2">Yarn</label></div><div class="blocks">'
        '<div class="active">{one}</div><div>{two}</div></div></div>'
    ),
    "Bootstrap": (
        '<ul class="nav nav-tabs"><li><a data-bs-toggle="tab" href="#one">npm</a></li>'
        '<li><a data-bs-toggle="tab" href="#two">Yarn</a></li></ul><div class="tab-content">'
        '<div class="tab-pane active" id="one">{one}</div><div class="tab-pane" id="two">{two}</div></div>'
    ),
    "VitePress with its style sheet": (
        "<style>.vp-code-group .blocks div{{display:none}}"
        ".vp-code-group .blocks .active{{display:block}}</style>"
        '<div class="vp-code-group"><div class="tabs"><input type="radio" id="a1"><label for="a1">npm'
        '</label><input type="radio" name="g" id="a2"><label for="a2">Yarn</label></div><div class="blocks">'
        '<div class="active">{one}</div><div>{two}</div></div></div>'
    ),
    "Docusaurus without classes": (
        '<div class="tabs-container"><ul role="tablist"><li role="tab">npm</li><li role="tab">Yarn</li></ul>'
        '<div><div role="tabpanel">{one}</div><div role="tabpanel" hidden>{two}</div></div></div>'
    ),
    "Asciidoctor": (
        '<div class="tabs"><div class="tablist"><ul><li id="t1" class="tab"><p>npm</p></li>'
        '<li id="t2" class="tab"><p>Yarn</p></li></ul></div>'
        '<div class="tabpanel" id="p1" aria-labelledby="t1">{one}</div>'
        '<div class="tabpanel" id="p2" aria-labelledby="t2" hidden>{two}</div></div>'
    ),
    "Starlight": (
        '<div><ul role="tablist"><li role="presentation"><a role="tab" href="#p1" id="t1">npm</a></li>'
        '<li role="presentation"><a role="tab" href="#p2" id="t2">Yarn</a></li></ul></div>'
        '<div id="p1" role="tabpanel">{one}</div><div id="p2" role="tabpanel" hidden>{two}</div>'
    ),
}


@pytest.mark.parametrize("html", CASES.values(), ids=CASES)
def test_each_code_has_the_label_of_its_tab(html: str) -> None:
    page = extract(article(html.format(one=ONE, two=TWO)), URL)
    said = [line for line in page.markdown.replace("(collapsed on the page)", "").splitlines() if line]
    at = said.index("npm")
    assert said[at : at + 8] == [
        "npm",
        "```",
        "npm install kettle",
        "```",
        "Yarn",
        "```",
        "yarn add kettle",
        "```",
    ]
    assert page.markdown.count("Yarn") == 1


def test_other_rows_of_labels_stay_where_they_are() -> None:
    form = (
        '<div><label for="a">Name</label><input id="a"><label for="b">City</label><input id="b"></div>'
        "<p>One sentence about the form above it.</p>"
    )
    tabs = '<div role="tablist"><button role="tab">npm</button><button role="tab">Yarn</button></div>'
    page = extract(article(form + tabs + "<p>Three</p><p>are</p><p>not two.</p>"), URL)
    assert "One sentence about the form above it." in page.markdown
    assert page.markdown.index("Three") < page.markdown.index("not two.")
