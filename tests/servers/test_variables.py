"""Variables come from the secrets file, the keyring and the hub's environment, in that order."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tabane.errors import ConfigurationError
from tabane.servers.variables import Variables, escaped, expand, load_variables, parse_secrets, with_folder
from tests.harness.cases import cases_beside

CASES = cases_beside(__file__)

NOTHING = Variables({})
TEXTS = st.text(st.sampled_from("a$}{:-_ 日") | st.characters(codec="utf-8"), max_size=20)
NAMES = st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,8}", fullmatch=True)


def put(text: str, **environ: str) -> str:
    expansion = expand(text, Variables(environ))
    assert not expansion.faults
    assert not expansion.missing
    return expansion.text()


def secrets_file(home: Path, content: str, mode: int = 0o600) -> Path:
    path = home / "secrets.env"
    path.write_text(content)
    path.chmod(mode)
    return path


def test_variables_are_put_in_wherever_they_stand() -> None:
    assert put("Bearer ${TOKEN}!", TOKEN="abc") == "Bearer abc!"
    assert put("${A}${env:B}", A="1", B="2") == "12"
    assert put("${A}", A="") == ""


def test_what_a_variable_holds_is_not_looked_at_again() -> None:
    assert put("${A}", A="${B}$${C}") == "${B}$${C}"


def test_a_default_stands_in_for_what_is_absent_or_empty() -> None:
    assert put("${A:-x y}") == "x y"
    assert put("${A:-x}", A="") == "x"
    assert put("${A:-x}", A="1") == "1"
    assert put("[${A:-}]") == "[]"
    assert put("${env:A:-http://x:1/}") == "http://x:1/"


def test_dollars_without_braces_are_text() -> None:
    assert put("$HOME $ $$ {x} $5", HOME="/x") == "$HOME $ $$ {x} $5"


def test_doubled_dollars_write_the_braces_themselves() -> None:
    assert put("$${A} and ${A}", A="1") == "${A} and 1"


def test_what_is_missing_is_named_once_for_each_place() -> None:
    expansion = expand("${A} ${B:-} ${C} ${A}", NOTHING)
    assert expansion.missing == ("A", "C", "A")


@pytest.mark.parametrize(("text", "shown"), CASES["what_is_no_variable_is_a_fault_that_shows_it"])
def test_what_is_no_variable_is_a_fault_that_shows_it(text: str, shown: str) -> None:
    (fault,) = expand(text, Variables({"A": "1", "B": "2"})).faults
    assert str(fault).startswith(f"{shown} is not a variable. Write variables as ${{NAME}}")


def test_an_input_is_a_fault_that_says_what_to_write() -> None:
    (fault,) = expand("${input:api-key}", NOTHING).faults
    assert "${input:api-key} asks for an input" in str(fault)
    assert "tabane secrets set API_KEY" in str(fault)


def test_the_clients_folder_is_left_for_later() -> None:
    expansion = expand("${workspaceFolder}/${A}/$${x}", Variables({"A": "${workspaceFolder}"}))
    assert expansion.needs_folder
    assert with_folder(expansion.template(), "/src") == "/src/${workspaceFolder}/${x}"
    assert with_folder("${workspaceFolderBasename}", "/src/日本") == "日本"


def test_the_users_home_is_known() -> None:
    assert expand("${userHome}/x", Variables({"HOME": "/home/hana"})).text() == "/home/hana/x"


@given(TEXTS)
def test_an_escaped_text_comes_back_as_it_was(text: str) -> None:
    assert put(escaped(text)) == text
    assert with_folder(escaped(text), "/src") == text


@given(TEXTS)
def test_any_text_is_expanded_or_refused_and_a_template_says_the_same(text: str) -> None:
    expansion = expand(text, Variables({"a": "1"}))
    if not expansion.needs_folder and not expansion.faults:
        assert with_folder(expansion.template(), "/src") == expansion.text()


def test_the_secrets_file_is_looked_into_before_keyring_and_environment(tmp_path: Path) -> None:
    secrets_file(tmp_path, "A=file\n")
    kept = {"A": "ring", "B": "ring"}
    variables = load_variables(tmp_path, {"A": "env", "B": "env", "C": "env"}, kept.get)
    assert [variables.get(name) for name in "ABCD"] == ["file", "ring", "env", None]


def test_without_a_secrets_file_the_environment_is_left(tmp_path: Path) -> None:
    assert load_variables(tmp_path, {"A": "env"}).get("A") == "env"


def test_what_a_variable_gave_is_a_secret_unless_it_is_no_news() -> None:
    environ = {"TOKEN": "abcdef", "HOME": "/home/hana", "DEBUG": "true"}
    expansion = expand("${TOKEN} ${HOME} ${DEBUG} ${NONE:-default} ${userHome}", Variables(environ))
    assert expansion.secrets == ("abcdef",)
    assert expand("${HOME}", Variables({}, {"HOME": "hidden"})).secrets == ("hidden",)


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o602])
def test_a_secrets_file_that_others_may_read_is_refused(tmp_path: Path, mode: int) -> None:
    path = secrets_file(tmp_path, "A=1", mode)
    with pytest.raises(ConfigurationError, match=f"chmod 600 {path}"):
        load_variables(tmp_path, {})


def test_the_secrets_file_is_read_as_people_write_it() -> None:
    text = (
        "\ufeff# comment\r\n\r\n"
        "PLAIN=a b  # comment\n"
        "  export HASH = a#b\n"
        "EMPTY=\n"
        "COMMENTED= # nothing\n"
        "SINGLE='a \\n # \"b\"' # comment\n"
        'DOUBLE="a\\n\\t\\"\\\\ \\$ \\d # é"#comment\n'
        'KEY="-----BEGIN\nabc\n-----END"\n'
        "JAPANESE=日本語\n"
        "URL=https://x/?a=b&c='d'\n"
        "PLAIN=last"
    )
    assert parse_secrets(text, "f") == {
        "PLAIN": "last",
        "HASH": "a#b",
        "EMPTY": "",
        "COMMENTED": "",
        "SINGLE": 'a \\n # "b"',
        "DOUBLE": 'a\n\t"\\ $ \\d # é',
        "KEY": "-----BEGIN\nabc\n-----END",
        "JAPANESE": "日本語",
        "URL": "https://x/?a=b&c='d'",
    }


@pytest.mark.parametrize(("text", "line"), CASES["a_line_that_cannot_be_read_is_named_and_not_shown"])
def test_a_line_that_cannot_be_read_is_named_and_not_shown(text: str, line: int) -> None:
    with pytest.raises(ConfigurationError) as raised:
        parse_secrets(text, "/home/secrets.env")
    assert str(raised.value).startswith(f"/home/secrets.env:{line}: expected NAME=value")
    assert "sk-secret" not in str(raised.value)


def _quoted(value: str) -> str:
    for plain, escape in (("\\", "\\\\"), ('"', '\\"'), ("\n", "\\n"), ("\r", "\\r")):
        value = value.replace(plain, escape)
    return f'"{value}"'


@given(st.dictionaries(NAMES, TEXTS, max_size=6), st.data())
def test_any_value_can_be_written_into_the_secrets_file(entries: dict[str, str], data: st.DataObject) -> None:
    gaps = st.sampled_from(["", " ", "\t"])
    lines = [
        data.draw(st.sampled_from(["", "export "]))
        + f"{name}{data.draw(gaps)}={data.draw(gaps)}{_quoted(value)}"
        + data.draw(st.sampled_from(["", " # x", " "]))
        for name, value in entries.items()
    ]
    assert parse_secrets("\n".join(lines), "f") == entries


@given(st.text(st.sampled_from("A='\"\\ #\n\tb$"), max_size=40))
def test_any_secrets_file_is_read_or_refused(text: str) -> None:
    try:
        entries = parse_secrets(text, "f")
    except ConfigurationError:
        return
    assert all(name.isidentifier() for name in entries)


def ask_keyring(tmp_path: Path, package: str, name: str) -> str:
    """What the lookup answers in a process where that is the package keyring."""
    (tmp_path / "keyring.py").write_text(package)
    program = (
        "import sys; from tabane.errors import ConfigurationError; "
        "from tabane.servers.variables import keyring_lookup\n"
        "try: print(keyring_lookup()(sys.argv[1]))\n"
        "except ConfigurationError as error: print(error)"
    )
    command = [sys.executable, "-c", program, name]
    environ = {**os.environ, "PYTHONPATH": str(tmp_path)}
    return subprocess.run(command, env=environ, capture_output=True, text=True, check=True).stdout.strip()


def test_a_keyring_is_asked_under_our_name(tmp_path: Path) -> None:
    package = (
        "from types import SimpleNamespace\n"
        "class KeyringError(Exception): pass\n"
        "errors = SimpleNamespace(KeyringError=KeyringError)\n"
        "def get_password(service, name):\n"
        "    if name == 'LOCKED': raise KeyringError('it is locked')\n"
        "    return {('tabane', 'A'): 'kept'}.get((service, name))\n"
    )
    assert ask_keyring(tmp_path, package, "A") == "kept"
    assert ask_keyring(tmp_path, package, "B") == "None"
    assert "it is locked" in ask_keyring(tmp_path, package, "LOCKED")


def test_a_keyring_that_is_not_installed_is_named(tmp_path: Path) -> None:
    said = ask_keyring(tmp_path, "raise ImportError('no such package')", "A")
    assert "package keyring is not installed" in said
