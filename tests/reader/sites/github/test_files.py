"""Files of GitHub: source, Markdown, notebooks, lines of them, and what is no text."""

from __future__ import annotations

import json
from io import BytesIO

import pytest
from PIL import Image

from tests.reader.site import Answer, Asked, Site
from tests.reader.sites.github.hub import REPO, entry, missing, way, whole
from tests.reader.sites.service import Shelf, read, said, tell

BLOB = "https://github.com/octo/demo/blob"
HEAD = "<repository>\nocto/demo\n</repository>\n\n<ref>\nmain\n</ref>\n\n"


def raw(site: Site, path: str, body: str | bytes) -> None:
    site.put(f"/raw/octo/demo/{path}", body, "text/plain; charset=utf-8")


def test_a_file_is_its_path_and_its_content_by_one_request(site: Site) -> None:
    raw(site, "main/src/a.py", "# <!-- kept -->\nx = 1\n")
    page = read(site, f"{BLOB}/main/src/a.py", way(site))
    assert page.markdown == (
        f"{HEAD}<path>\nsrc/a.py\n</path>\n\n"
        "<content>\n\n```python\n# <!-- kept -->\nx = 1\n```\n\n</content>"
    )
    assert (page.url, page.title) == (f"{BLOB}/main/src/a.py", "a.py · octo/demo")
    assert site.paths == ["/raw/octo/demo/main/src/a.py"]


@pytest.mark.parametrize(
    "url",
    ["https://github.com/octo/demo/raw/main/a%20b.py", "https://github.com/octo/demo/blame/main/a%20b.py",
     "https://raw.githubusercontent.com/octo/demo/main/a%20b.py",
     "https://raw.githubusercontent.com/octo/demo/refs/heads/main/a%20b.py"],
)  # fmt: skip
def test_every_address_of_a_file_leads_to_it(site: Site, url: str) -> None:
    raw(site, "main/a%20b.py", "x = 1\n")
    page = read(site, url, way(site))
    assert "<path>\na b.py\n</path>" in page.markdown
    assert "x = 1" in page.markdown


def test_a_branch_with_slashes_is_told_from_the_path(site: Site) -> None:
    missing(site, f"{REPO}/contents/x/a.py")
    tell(site, f"{REPO}/git/matching-refs/heads/feature/x", [{"ref": "refs/heads/feature/x"}])
    tell(site, f"{REPO}/contents/a.py?ref=feature%2Fx", whole("a.py", "名 = 1\n".encode()))
    page = read(site, f"{BLOB}/feature/x/a.py", way(site))
    assert "<ref>\nfeature/x\n</ref>\n\n<path>\na.py\n</path>" in page.markdown
    assert "名 = 1" in page.markdown


def test_a_file_of_more_than_a_megabyte_is_read_whole(site: Site) -> None:
    body = b"".join(b"line %d\n" % n for n in range(200_000))
    site.ask(f"{REPO}/contents/log.txt", lambda asked: _large(asked.headers["accept"], body))
    page = read(site, f"{BLOB}/topic/log.txt", way(site))
    assert "line 199999\n```" in page.markdown


def _large(accept: str, body: bytes) -> Answer:
    if "raw" in accept:
        return Answer(body=body, media_type="application/vnd.github.raw+json; charset=utf-8")
    told = entry("log.txt", len(body), encoding="none", content="")
    return Answer(body=json.dumps(told).encode(), media_type="application/json")


@pytest.mark.parametrize(
    ("anchor", "lines", "content"),
    [
        ("#L2", "2-2", "b"),
        ("#L2-L3", "2-3", "b\nc"),
        ("#L3C1-L2C9", "2-3", "b\nc"),
        ("#L3-L99", "3-4", "c\nd"),
    ],
)
def test_an_anchor_of_lines_gives_these_lines(site: Site, anchor: str, lines: str, content: str) -> None:
    raw(site, "main/a.txt", "a\nb\nc\nd\n")
    page = read(site, f"{BLOB}/main/a.txt{anchor}", way(site))
    assert (
        f"<lines>\n{lines} of 4\n</lines>\n\n<content>\n\n```\n{content}\n```\n\n</content>" in page.markdown
    )


def test_lines_that_are_not_there_give_the_file_and_a_word(site: Site) -> None:
    raw(site, "main/a.txt", "a\nb\n")
    page = read(site, f"{BLOB}/main/a.txt#L9", way(site))
    assert "a\nb" in page.markdown
    assert "2 lines" in said(page)


def test_markdown_is_markdown_with_whole_links(site: Site) -> None:
    raw(
        site,
        "main/docs/a.md",
        '# A\n\n[b](b.md#x) <img src="../i.png"> [c][r]\n\n[r]: ../c.py\n\n```\n[no](no.md)\n```\n',
    )
    page = read(site, f"{BLOB}/main/docs/a.md", way(site))
    assert f"# A\n\n[b]({BLOB}/main/docs/b.md#x)" in page.markdown
    assert 'src="https://github.com/octo/demo/raw/main/i.png"' in page.markdown
    assert f"[r]: {BLOB}/main/c.py" in page.markdown
    assert "[no](no.md)" in page.markdown


def test_html_and_json_are_shown_as_their_source(site: Site) -> None:
    raw(site, "main/a.html", "<!doctype html><nav>Menu</nav><!-- note --><p>Hi</p>")
    assert (
        "```html\n<!doctype html><nav>Menu</nav><!-- note -->"
        in read(site, f"{BLOB}/main/a.html", way(site)).markdown
    )
    raw(site, "main/a.json", '{"a": [1,2]}')
    assert '```json\n{"a": [1,2]}\n```' in read(site, f"{BLOB}/main/a.json", way(site)).markdown


def test_a_notebook_is_prose_code_and_output(site: Site) -> None:
    cells = [
        {"cell_type": "markdown", "source": ["# Plot\n", "of it"]},
        {"cell_type": "code", "source": "print(1)", "execution_count": 1, "outputs": [
            {"output_type": "stream", "name": "stdout", "text": ["1\n"]},
            {"output_type": "display_data", "data": {"image/png": "iVBO", "text/plain": ["<Figure>"]}},
            {"output_type": "execute_result", "data": {"text/plain": "2"}, "metadata": {}},
            {"output_type": "error", "ename": "ValueError", "evalue": "no", "traceback": []}]},
    ]  # fmt: skip
    meta = {"kernelspec": {"name": "python3", "language": "python"}}
    raw(site, "main/n.ipynb", json.dumps({"cells": cells, "metadata": meta, "nbformat": 4}))
    assert (
        "# Plot\nof it\n\n```python\nprint(1)\n```\n\n```text\n1\n```\n\n[picture: image/png]\n\n"
        "```text\n2\n```\n\n```text\nValueError: no\n```"
    ) in read(site, f"{BLOB}/main/n.ipynb", way(site)).markdown


def test_what_is_no_text_is_named(site: Site) -> None:
    raw(site, "main/a.bin", bytes(range(256)) * 16)
    assert "[binary file, 4.0 KB" in read(site, f"{BLOB}/main/a.bin", way(site)).markdown


def test_a_picture_comes_as_a_picture(site: Site) -> None:
    body = BytesIO()
    Image.new("RGB", (30, 20), "red").save(body, "PNG")
    raw(site, "main/a.png", body.getvalue())
    page = read(site, f"{BLOB}/main/a.png", way(site))
    assert len(page.pictures) == 1
    assert "<path>\na.png\n</path>" in page.markdown


def test_a_file_in_lfs_is_fetched_from_there(site: Site) -> None:
    pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n"
    raw(site, "main/d.csv", pointer)
    site.put("/media/octo/demo/main/d.csv", "a,b\n1,2\n", "text/plain")
    assert "| a | b |" in read(site, f"{BLOB}/main/d.csv", way(site)).markdown
    raw(site, "main/e.txt", pointer)
    page = read(site, f"{BLOB}/main/e.txt", way(site))
    assert "oid sha256" in page.markdown
    assert "LFS" in said(page)


def test_a_folder_under_the_url_of_a_file_is_a_folder(site: Site) -> None:
    missing(site, "/raw/octo/demo/main/src")
    tell(site, f"{REPO}/contents/src?ref=main", [entry("src/a.py")])
    assert "📄 a.py" in read(site, f"{BLOB}/main/src", way(site)).markdown


def test_a_submodule_says_where_it_leads(site: Site) -> None:
    missing(site, "/raw/octo/demo/main/sub")
    tell(site, f"{REPO}/contents/sub?ref=main",
         entry("sub", 0, "submodule", submodule_git_url="https://github.com/o/sub.git"))  # fmt: skip
    assert "→ https://github.com/o/sub.git" in read(site, f"{BLOB}/main/sub", way(site)).markdown


def test_a_file_is_asked_again_with_its_etag(site: Site) -> None:
    seen: list[str | None] = []

    def tagged(asked: Asked) -> Answer:
        seen.append(asked.headers.get("if-none-match"))
        known = seen[-1] == '"1"'
        return Answer(304 if known else 200, b"" if known else b"x", "text/plain", {"ETag": '"1"'})

    site.ask("/raw/octo/demo/main/a.txt", tagged)
    kept = Shelf()
    page = read(site, f"{BLOB}/main/a.txt", way(site), shelf=kept, times=2)
    assert seen == [None, '"1"']
    assert "```\nx\n```" in page.markdown


def test_lines_of_a_file_are_not_kept_as_the_file(site: Site) -> None:
    raw(site, "main/a.txt", "a\nb\nc\n")
    kept = Shelf()
    read(site, f"{BLOB}/main/a.txt#L2", way(site), shelf=kept)
    assert kept.pages == {}
    assert "a\nb\nc" in read(site, f"{BLOB}/main/a.txt", way(site), shelf=kept).markdown
