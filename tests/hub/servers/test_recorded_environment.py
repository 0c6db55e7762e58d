"""The environment of a terminal, recorded for hubs that lack it: what is written, and what is used of it."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Mapping
from pathlib import Path

from hypothesis import example, given
from hypothesis import strategies as st

from tabane.hub.servers.recorded_environment import (
    forget_recorded,
    record_environment,
    recorded_environment,
    with_recorded,
)
from tabane.upstreams.processes.variable_names import SECRET_WORDS, VariableKind, kind_of

PROXY = {"HTTPS_PROXY": "http://proxy.example:3128", "NO_PROXY": "localhost"}


def path_of(environ: Mapping[str, str]) -> str:
    return environ["PATH"]


def test_what_the_terminal_had_is_added_to_a_hub_that_lacks_it(tmp_path: Path) -> None:
    authority = tmp_path / "company.pem"
    authority.touch()
    terminal = {**PROXY, "NODE_EXTRA_CA_CERTS": str(authority), "LANG": "ja_JP.UTF-8", "HOME": "/home/a"}
    assert record_environment(tmp_path, terminal)
    assert not record_environment(tmp_path, terminal)
    assert stat.S_IMODE((tmp_path / "environment").stat().st_mode) == 0o600
    assert with_recorded({"HOME": "/home/b"}, tmp_path) == {**terminal, "HOME": "/home/b"}


def test_the_environment_of_the_hub_wins_and_proxies_are_not_mixed(tmp_path: Path) -> None:
    record_environment(tmp_path, {**PROXY, "LANG": "ja_JP.UTF-8", "TZ": "Asia/Tokyo"})
    own = {"https_proxy": "http://other.example", "LANG": "C"}
    assert with_recorded(own, tmp_path) == {**own, "TZ": "Asia/Tokyo"}


def test_what_is_unset_in_the_terminal_of_a_hub_stays_unset(tmp_path: Path) -> None:
    record_environment(tmp_path, {**PROXY, "PATH": "/a:/b"})
    own = {"PATH": "/b", "TABANE_TERMINAL": "1"}
    assert with_recorded(own, tmp_path) == {**own, "PATH": "/a:/b"}


def test_credentials_are_not_written_and_are_looked_up_among_the_secrets(tmp_path: Path) -> None:
    terminal = {"HTTPS_PROXY": "http://hana:pass@proxy.example", "NPM_TOKEN": "npm_1", "OPENAI_API_KEY": "k"}
    record_environment(tmp_path, terminal)
    written = (tmp_path / "environment").read_text()
    assert "pass" not in written
    assert "npm_1" not in written
    assert "OPENAI" not in written
    assert recorded_environment(tmp_path).credentials == ("HTTPS_PROXY", "NPM_TOKEN")
    assert with_recorded({}, tmp_path) == {}
    secrets = {"HTTPS_PROXY": "http://hana:new@proxy.example", "OPENAI_API_KEY": "k"}
    assert with_recorded({}, tmp_path, secrets.get) == {"HTTPS_PROXY": secrets["HTTPS_PROXY"]}


def test_an_address_that_gets_a_password_is_not_recorded_any_more(tmp_path: Path) -> None:
    record_environment(tmp_path, PROXY)
    record_environment(tmp_path, {"https_proxy": "http://hana:pass@proxy.example"})
    found = recorded_environment(tmp_path)
    assert found.variables == {"NO_PROXY": "localhost"}
    assert found.credentials == ("https_proxy",)


def test_a_poorer_environment_removes_nothing_and_a_person_can(tmp_path: Path) -> None:
    record_environment(tmp_path, {**PROXY, "LANG": "ja_JP.UTF-8"})
    record_environment(tmp_path, {"LANG": "C"})
    found = recorded_environment(tmp_path)
    assert found.variables == {**PROXY, "LANG": "C"}
    assert found.stale({"LANG": "C"}) == ("HTTPS_PROXY", "NO_PROXY")
    assert forget_recorded(tmp_path, ["HTTPS_PROXY", "NO_PROXY"])
    assert recorded_environment(tmp_path).variables == {"LANG": "C"}
    assert not forget_recorded(tmp_path, ["HTTPS_PROXY"])


def test_a_certificate_file_that_is_gone_is_not_used(tmp_path: Path) -> None:
    authority = tmp_path / "company.pem"
    authority.touch()
    record_environment(tmp_path, {"SSL_CERT_FILE": str(authority), "NVM_DIR": "/gone"})
    authority.unlink()
    assert with_recorded({}, tmp_path) == {"NVM_DIR": "/gone"}


def test_what_belongs_to_one_shell_is_not_recorded(tmp_path: Path) -> None:
    shell = {"TMPDIR": "/tmp/x", "FNM_MULTISHELL_PATH": "/run/x", "NODE_OPTIONS": "--require x.js"}
    assert not record_environment(tmp_path, shell)
    assert record_environment(tmp_path, {"NODE_OPTIONS": "--use-system-ca --inspect"})
    assert with_recorded({}, tmp_path) == {"NODE_OPTIONS": "--use-system-ca"}


def test_the_path_of_an_earlier_version_is_kept(tmp_path: Path) -> None:
    (tmp_path / "path").write_text("/old/bin:/usr\n")
    (tmp_path / "path").chmod(0o600)
    assert path_of(with_recorded({}, tmp_path)) == "/old/bin:/usr"
    assert record_environment(tmp_path, {"LANG": "C"})
    assert recorded_environment(tmp_path).path == "/old/bin:/usr"
    assert not (tmp_path / "path").exists()


def test_a_file_that_others_may_read_or_write_is_not_used(tmp_path: Path) -> None:
    for mode in (0o644, 0o622):
        record_environment(tmp_path, {"PATH": "/a", **PROXY})
        (tmp_path / "environment").chmod(mode)
        assert with_recorded({}, tmp_path) == {}


def test_a_file_that_was_edited_opens_no_way_around_the_rules(tmp_path: Path) -> None:
    variables = {"LD_PRELOAD": "/x.so", "GITHUB_TOKEN": "t", "LANG": 3, "TZ": "UTC", "HOME": "/x"}
    content = {"path": 7, "variables": variables, "credentials": ["GITHUB_TOKEN", "HTTPS_PROXY", None]}
    for text in ("", "[]", "{", "null", "[" * 100_000, json.dumps({"variables": []})):
        write(tmp_path, text)
        assert with_recorded({}, tmp_path) == {}
    write(tmp_path, json.dumps(content))
    secrets = {"GITHUB_TOKEN": "t", "HTTPS_PROXY": "http://a:b@c"}
    assert with_recorded({}, tmp_path, secrets.get) == {"TZ": "UTC", "HTTPS_PROXY": "http://a:b@c"}


@given(
    st.dictionaries(
        st.one_of(
            st.sampled_from(["HTTPS_PROXY", "UV_INDEX", "LANG", "NPM_TOKEN", "MISE_TOKEN", "PATH"]),
            st.text(st.characters(codec="ascii", exclude_characters="\0="), min_size=1, max_size=12),
        ),
        st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=30),
    )
)
@example({"GOAUTH": "netrc"})
def test_no_secret_is_ever_written(environ: dict[str, str]) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        record_environment(folder, environ)
        found = recorded_environment(folder)
        assert not record_environment(folder, environ)
    for name, value in found.variables.items():
        # What a download needs is known by its name, and tells where a secret is, not the secret.
        known = kind_of(name) is VariableKind.DOWNLOAD
        assert known or not any(word in name.upper() for word in SECRET_WORDS)
        assert not (name.endswith(("_PROXY", "UV_INDEX")) and "@" in value)
        assert environ[name] == value or name == "NODE_OPTIONS"


# -- the PATH ------------------------------------------------------------------------------------


def test_folders_that_only_the_environment_has_come_first(tmp_path: Path) -> None:
    assert record_environment(tmp_path, {"PATH": "/a:/b:relative::/a"})
    assert recorded_environment(tmp_path).path == "/a:/b"
    assert path_of(with_recorded({"PATH": "/b:/c"}, tmp_path)) == "/c:/a:/b"
    rich = {"PATH": "/b:/c:/a"}
    assert with_recorded(rich, tmp_path) is rich
    assert path_of(with_recorded({}, tmp_path)) == "/a:/b"


def test_a_poorer_path_is_not_recorded_and_folders_that_are_gone_are_forgotten(tmp_path: Path) -> None:
    here = str(tmp_path / "here")
    os.mkdir(here)
    assert record_environment(tmp_path, {"PATH": f"{here}:/usr:/gone"})
    assert not record_environment(tmp_path, {"PATH": "/usr"})
    os.rmdir(here)
    assert record_environment(tmp_path, {"PATH": "/usr:/bin"})
    assert recorded_environment(tmp_path).path == "/usr:/bin"


def write(home: Path, text: str) -> None:
    (home / "environment").write_text(text)
    (home / "environment").chmod(0o600)
