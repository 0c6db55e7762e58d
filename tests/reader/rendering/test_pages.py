"""Pages that their programs make, as a browser shows them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tabane.errors import ReadError
from tests.reader.rendering.conftest import Show
from tests.reader.site import Answer, Site

APP = """<!doctype html><title>App</title><main id="root"></main><script>
fetch("/data", {method: "POST", body: "all"}).then(said => said.json()).then(rows => {
  root.innerHTML = rows.map(row => `<p>${row}</p>`).join("");
  document.title = "Rows";
});
</script>"""


def test_what_a_program_writes_is_there(site: Site, show: Show) -> None:
    site.put("/app", APP)
    site.put("/data", '["one", "二つ"]', "application/json")
    fetched = show(site.url("/app"))
    text = fetched.body.decode()
    assert "<p>one</p><p>二つ</p>" in text
    assert "<title>Rows</title>" in text
    assert (fetched.url, fetched.status, fetched.media_type) == (site.url("/app"), 200, "text/html")
    assert (fetched.charset, fetched.warnings) == ("utf-8", ())
    assert [(asked.method, asked.path) for asked in site.asked] == [("GET", "/app"), ("POST", "/data")]
    assert site.asked[0].headers["user-agent"] == site.policy().user_agent
    # What is said to the gate stays with the gate.
    assert not any(name.startswith("proxy-") for asked in site.asked for name in asked.headers)


def test_a_page_that_moves_on_is_read_where_it_ends(site: Site, show: Show) -> None:
    site.put("/start", "<p>Wait</p><script>setTimeout(() => location.replace('/hop'), 50)</script>")
    site.redirect("/hop", site.url("/end?x=1", host="localhost"))
    site.put(
        "/end", "<p id=it></p><script>it.textContent = 'Arrived'; history.pushState(0, '', '/own')</script>"
    )
    fetched = show(site.url("/start"))
    assert "Arrived" in fetched.body.decode()
    assert fetched.url == site.url("/own", host="localhost")


def test_shadow_trees_stand_in_their_places(site: Site, show: Show) -> None:
    site.put(
        "/parts",
        """<x-card><b slot="name">Tea</b>, green &amp; hot</x-card><script>
        customElements.define("x-card", class extends HTMLElement { connectedCallback() {
          this.attachShadow({mode: "open"}).innerHTML =
            "<h2><slot name=name>Nameless</slot></h2><p><slot></slot></p>" +
            "<i><slot name=none>1 &lt; 2</slot></i>";
        }});</script>""",
    )
    text = show(site.url("/parts")).body.decode()
    assert '<h2><slot name="name"><b slot="name">Tea</b></slot></h2>' in text
    assert "<p><slot>, green &amp; hot</slot></p>" in text
    assert "1 &lt; 2" in text
    assert "<script" not in text


def test_what_describes_the_page_is_kept_and_what_frames_others_is_left(site: Site, show: Show) -> None:
    site.put(
        "/page",
        """<script type="application/ld+json">{"headline": "A < B"}</script><style>b > i {}</style>
        <noscript>Old</noscript><iframe src="/framed"></iframe><img src="/cat.png" alt='a "cat"'>
        <p id=it></p><script>it.textContent = 'There'</script>""",
    )
    text = show(site.url("/page")).body.decode()
    assert '<script type="application/ld+json">{"headline": "A < B"}</script>' in text
    assert "<style>b > i {}</style>" in text
    assert 'alt="a &quot;cat&quot;"' in text
    assert "Old" not in text
    assert "iframe" not in text
    # Nobody looks at pictures, and what is framed is a page of its own.
    assert not {"/framed", "/cat.png"} & set(site.paths)


def test_a_page_over_tls_goes_through_the_gate_as_it_is(
    site: Site, show: Show, browser: str, tmp_path: Path
) -> None:
    site.put("/data", '["sealed"]', "application/json")
    site.put("/app", APP)
    with pytest.raises(ReadError) as raised:
        show(site.secure("/app"))
    assert raised.value.cause == "tls"
    assert not site.asked
    trusting = tmp_path / "trusting"
    trusting.write_text(f'#!/bin/sh\nexec {browser} --ignore-certificate-errors "$@"\n')
    trusting.chmod(0o755)
    tmp_path.chmod(0o755)
    fetched = show(site.secure("/app"), program=_reachable(trusting))
    assert "<p>sealed</p>" in fetched.body.decode()
    assert site.asked[0].secure


def _reachable(script: Path) -> str:
    """The script where another user may run it: the folders of pytest are for one user alone."""
    for folder in list(script.parents)[:-2]:
        folder.chmod(folder.stat().st_mode | 0o055)
    return str(script)


def test_a_page_that_is_none_says_why(site: Site, show: Show) -> None:
    site.put("/gone", "<p>Gone</p>", status=410)
    site.put("/file", b"PK", "application/zip")
    site.put("/kept", "<p>x</p>", headers={"Content-Disposition": "attachment; filename=x.html"})
    for path, cause in (("/gone", "status"), ("/file", "type"), ("/kept", "type")):
        with pytest.raises(ReadError) as raised:
            show(site.url(path))
        assert raised.value.cause == cause, path
    with pytest.raises(ReadError) as raised:
        show(site.url("/", host="nowhere.example"), policy={"allowed": ("*.example",)})
    assert raised.value.cause == "dns"


def test_cookies_are_gone_with_the_page(site: Site, show: Show) -> None:
    site.ask("/", lambda asked: Answer(body=f"<p>{asked.headers.get('cookie', 'none')}".encode(),
                                       headers={"Set-Cookie": "a=1; Max-Age=999"}))  # fmt: skip
    for _ in range(2):
        assert "<p>none" in show(site.url("/")).body.decode()
