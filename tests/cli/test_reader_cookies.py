"""`tabane reader cookies` as a user runs it: imports, lists, pages behind a login, and no leak of values."""

from __future__ import annotations

import json
import os
import stat
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness.patience import wait_until
from tests.harness.ports import reserved_port
from tests.harness.user import Assistant, User, assistant
from tests.reader.site import Answer, Asked, Site, running

VALUE = "Zq7-value-of-the-cookie-19"
LATER = int(time.time()) + 86_400
PRIVATE = "The invoice of Ann: nobody else may read this. " * 8


def line(domain: str, name: str, value: str, *, expires: int = LATER, below: bool = True) -> str:
    return "\t".join([domain, str(below).upper(), "/", "TRUE", str(expires), name, value])


def cookies_txt(*lines: str) -> str:
    return "\n".join(["# Netscape HTTP Cookie File", "", *lines, ""])


def account(asked: Asked) -> Answer:
    if f"sid={VALUE}" not in asked.headers.get("cookie", ""):
        return Answer(body=b"<title>Sign in</title><h1>Sign in</h1><p>Sign in to see your account here.</p>")
    body = f"<title>Account</title><main><h1>Account</h1><p>{PRIVATE}</p><p>{PRIVATE[::-1]}</p></main>"
    return Answer(body=body.encode(), headers={"Set-Cookie": "fresh=1", "ETag": '"1"'})


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    with running() as site:
        site.ask("/account", account)
        site.put("/closed", "No", status=403)
        site.put("/shell", "<title>App</title><div id=root></div><script src=/app.js></script>")
        site.redirect("/login", site.url("/signin"))
        site.put("/signin", "<h1>Sign in</h1><p>Sign in to see your account here.</p>")
        yield site


@pytest.fixture
def user(tmp_path: Path, site: Site) -> Iterator[User]:
    user = User(tmp_path)
    user.environment |= {
        "TABANE_READER_ALLOW": ",".join(site.allowed),
        "TABANE_READER_CA": str(site.authority),
        "TABANE_LOG_LEVEL": "debug",
        "TABANE_APPROVAL_WAIT": "0",
    }
    yield user
    user.run("stop")
    user.close()


@pytest.fixture
def host(site: Site) -> str:
    return f"localhost:{site.secure_port}"


def import_cookies(user: User, host: str, *more: str) -> None:
    text = cookies_txt(line("localhost", "sid", VALUE), *more)
    assert user.run("reader", "cookies", host, "-", stdin=text).succeeded


def leaks(user: User, *texts: str) -> list[str]:
    """Return the files under the user's folder that hold one of the texts."""
    files = [path for path in user.folder.rglob("*") if path.is_file() and path.parent.name != "cookies"]
    return [str(path) for path in files if any(text.encode() in path.read_bytes() for text in texts)]


def test_cookies_of_one_host_are_imported_listed_and_removed(user: User) -> None:
    file = user.folder / "cookies.txt"
    file.write_text(
        cookies_txt(
            line(".example.com", "sid", VALUE), line("example.com", "own", VALUE, expires=0, below=False),
            "#HttpOnly_" + line(".example.com", "later", VALUE, expires=LATER + 500),
            line(".example.com", "old", VALUE, expires=1_000_000_000),
            line("www.example.com", "w", VALUE), line(".other.org", "x", VALUE), "no cookie",
        )
    )  # fmt: skip
    done = user.run("reader", "cookies", "example.com", str(file)).succeeded
    assert done.out.splitlines()[:4] == [
        "Imported 3 cookies of example.com.",
        "Ignored 2 cookies of other hosts.",
        "Ignored 1 cookie that has expired.",
        "Ignored 1 line that is not a cookie.",
    ]
    assert time.strftime("%Y-%m-%d %H:%M", time.localtime(LATER)) in done.out
    [row] = user.json("reader", "cookies")["results"]
    assert (row["host"], row["cookies"], row["expired"]) == ("example.com", 3, 0)
    folder = user.tabane / "cookies"
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert [(path.name, stat.S_IMODE(path.stat().st_mode)) for path in folder.glob("*.json")] == [
        ("example.com.json", 0o600)
    ]
    shown = [user.run("reader", "cookies", *words).succeeded for words in ((), ("example.com",), ("--json",))]
    assert not any(VALUE in each.out + each.err for each in (done, *shown))
    assert user.run("reader", "cookies", "example.con", "--remove").status == 2
    removed = user.run("reader", "cookies", "https://EXAMPLE.com/account", "--remove").succeeded
    assert removed.out == "The cookies of example.com were removed.\n"
    assert user.json("reader", "cookies")["results"] == []
    assert not list(folder.glob("*.json"))


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("just a text\nof two lines\n", "standard input is not a file of cookies."),
        ("[1, 2", "standard input is not a file of cookies."),
        ("[" * 100_000, "standard input is not a file of cookies."),
        (cookies_txt(), "standard input has no cookies."),
        (cookies_txt(line(".b.org", "a", VALUE), line("a.org", "a", VALUE)),
         "standard input has no cookie for example.com. It has cookies of: a.org, b.org."),
        (cookies_txt(line("example.com", "a", VALUE, expires=1_000_000_000)),
         "1 cookie of example.com in standard input has expired."),
        (cookies_txt(*(line("example.com", f"a{n}", VALUE) for n in range(301))),
         "standard input has 301 cookies of example.com, more than a browser keeps."),
        ("x" * ((8 << 20) + 1), "standard input is larger than 8 MB"),
    ],
)  # fmt: skip
def test_what_cannot_be_imported_is_an_error_without_values(user: User, text: str, why: str) -> None:
    failed = user.run("reader", "cookies", "example.com", "-", stdin=text)
    assert (failed.status, failed.out) == (2, "")
    assert why in failed.err
    assert VALUE not in failed.err
    assert not (user.tabane / "cookies").exists()


def test_files_and_hosts_that_are_none_are_errors(user: User) -> None:
    for words, why in (
        (("example.com", "missing.txt"), "missing.txt cannot be read: No such file or directory."),
        (("not a host", "x"), "not a host is not a host."),
        (("--remove",), "Give the host"),
        (("a.org", "x", "--remove"), "Give either FILE or --remove."),
    ):
        failed = user.run("reader", "cookies", *words)
        assert failed.status != 0
        assert why in failed.err
    (user.folder / "binary").write_bytes(b"\xff\xfe\x00")
    assert "is not UTF-8 text." in user.run("reader", "cookies", "a.org", "binary").err


def test_json_of_an_extension_is_imported_too(user: User) -> None:
    rows = [
        {"domain": ".a.org", "name": "sid", "value": VALUE, "path": "/", "expirationDate": LATER + 0.5},
        {"domain": "www.a.org", "hostOnly": True, "name": "w", "value": VALUE},
    ]
    found = user.run("reader", "cookies", "a.org", "-", "--json", stdin=json.dumps(rows)).succeeded.json
    assert (found["cookies"], found["ignored"]) == (1, 1)


@pytest.mark.heavy("real commands, a hub and servers")
def test_a_page_behind_a_login_is_read_marked_and_not_kept(user: User, site: Site, host: str) -> None:
    address = site.secure("/account")
    before = user.run("read", address).succeeded.out
    assert "Sign in" in before
    assert "private" not in before
    import_cookies(user, host)  # the hub runs already
    front, content = user.run("read", address).succeeded.out.split("\n---\n", 1)
    assert "private: true" in front.splitlines()
    assert f"imported cookies of {host}" in front
    assert "The invoice of Ann" in content
    raw = user.run("read", address, "--format", "raw").succeeded.out
    assert "The invoice of Ann" in raw
    found = user.json("read", address)
    assert found["private"] is True
    assert "private" not in user.json("read", site.url("/account"))
    kept = user.json("rpc", "list_pages")["results"]
    assert all("invoice" not in str(row) for row in kept)
    assert not user.json("search", "invoice", "--in", "pages")["results"]
    saved = user.run("read", address, "--remember")
    assert saved.status == 1
    assert "not saved as documents" in saved.err
    audit = user.run("audit", "--json").succeeded.json["results"]
    reads = [row.get("reason", "") for row in audit if row["name"] == "read_url_content"]
    assert reads.count("with cookies") == 4
    assert user.run("reader", "cookies", host, "--remove").succeeded
    assert "Sign in" in user.run("read", address, "--refresh").succeeded.out
    assert user.run("stop").succeeded
    assert leaks(user, VALUE, "The invoice of Ann") == []


def test_a_home_that_is_added_to_documents_adds_no_cookies(user: User, host: str) -> None:
    import_cookies(user, host)
    (user.folder / "note.md").write_text("A note above the cookies.")
    for folder in (user.folder, user.tabane, user.tabane / "cookies"):
        user.run("docs", "add", str(folder))
    names = user.run("docs", "list").succeeded.out
    assert "note.md" in names
    assert "cookies" not in names


def test_values_are_in_no_file_and_no_output_after_failures_too(user: User, site: Site, host: str) -> None:
    import_cookies(user, host)
    outputs = [
        user.run("read", site.secure(path), *more)
        for path, more in (("/account", ()), ("/closed", ()), ("/login", ()), ("/nothing", ("--json",)))
    ]
    assert "With the imported cookies of" in outputs[1].err
    assert "where the cookies are not sent" in outputs[2].out
    outputs.append(user.run("read", site.secure("/shell")))
    assert "pages that are read with cookies are not opened in a browser" in outputs[-1].err
    outputs += [user.run(*words) for words in (("logs",), ("audit",), ("settings",), ("status",))]
    outputs.append(user.run("backup", str(user.folder / "backup.tar"), "--with-secrets"))
    assert not any(VALUE in each.out + each.err for each in outputs)
    assert user.run("stop").succeeded
    assert leaks(user, VALUE) == []
    (kept,) = (user.tabane / "cookies").glob("*.json")
    assert VALUE in kept.read_text()


def test_an_assistant_gets_private_labels_and_no_way_to_the_cookies(
    user: User, site: Site, host: str
) -> None:
    import_cookies(user, host)
    with assistant(user) as session:
        text = session.text("read_url_content", url=site.secure("/account"))
        assert "private: true" in text
        [trail] = user.json("policy", "trails")["results"]
        assert trail["labels"] == ["private", "untrusted"]
        assert "private" in session.failure("read_url_content", url=site.url("/signin?d=invoice"))
        names = json.dumps(session.tools())
        assert "cookie" not in names
        answer = session.ask("tools/call", name="import_cookies", arguments={})
        assert "error" in answer


def test_http_and_expired_cookies_are_warnings(user: User, site: Site, host: str) -> None:
    soon = int(time.time()) + 2
    text = cookies_txt(line("localhost", "sid", VALUE, expires=soon))
    assert user.run("reader", "cookies", host, "-", stdin=text).succeeded
    wait_until(lambda: time.time() > soon, "the cookie has expired")
    found = user.json("read", site.secure("/account"))
    assert "private" not in found
    assert "have expired" in found["warnings"][0]
    [row] = user.json("reader", "cookies")["results"]
    assert (row["cookies"], row["expired"]) == (0, 1)


@pytest.mark.heavy("real commands, a hub and servers")
def test_only_the_owner_uses_them_unless_the_settings_say_otherwise(
    user: User, site: Site, host: str
) -> None:
    import_cookies(user, host)
    secret = user.run("keys", "create", "guest", "--allow", "@pages").succeeded.out.strip()
    assert user.run("stop").succeeded
    port = reserved_port(user)
    user.environment |= {"TABANE_HTTP": "true", "TABANE_PORT": str(port)}
    for wanted, private in (("owner", False), ("keys", True)):
        user.environment["TABANE_READER_COOKIES"] = wanted
        assert user.run("start").succeeded
        guest = {"TABANE_TOKEN": secret, "TABANE_URL": f"ws://127.0.0.1:{port}/"}
        text = user.run("read", site.secure("/account"), "--json", environment=guest).succeeded.json
        assert ("private" in text) is private
        assert user.run("stop").succeeded


def test_a_client_with_a_profile_gets_the_public_page(user: User, site: Site, host: str) -> None:
    import_cookies(user, host)
    file = user.folder / "tabane.toml"
    file.write_text('[profiles.web]\nallow = ["@pages"]\n')
    file.chmod(0o600)
    user.environment["TABANE_CONFIG"] = str(file)
    for flags, private in (((), True), (("--profile", "web"), False)):
        session = Assistant(user.assistant(*flags))
        text = session.text("read_url_content", url=site.secure("/account"))
        assert ("private: true" in text) is private


def test_a_file_that_others_can_read_is_not_used(user: User, site: Site, host: str) -> None:
    import_cookies(user, host)
    (kept,) = (user.tabane / "cookies").glob("*.json")
    os.chmod(kept, 0o644)
    failed = user.run("read", site.secure("/account"))
    assert failed.status != 0
    assert "chmod 600" in failed.err
    kept.write_text("{" + VALUE)
    os.chmod(kept, 0o600)
    failed = user.run("read", site.secure("/account"))
    assert "is broken. Import the cookies again" in failed.err
    assert VALUE not in failed.err
