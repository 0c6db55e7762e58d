"""Which variables of a hub reach a server, and which only its download: rules on names and values."""

from __future__ import annotations

import string

from hypothesis import given
from hypothesis import strategies as st

from tabane.servers.redaction import Redactor
from tabane.upstreams.processes.child_environment import (
    LONGEST_VALUE,
    MOST_BYTES,
    child_environment,
    download_environment,
    environment_names,
    environment_secrets,
    has_credentials,
)
from tabane.upstreams.processes.variable_names import BASIC, SECRET_WORDS, VariableKind, kind_of

WORLD = {
    "HTTPS_PROXY": "http://proxy.example:3128",
    "https_proxy": "http://proxy.example:3128",
    "NO_PROXY": "localhost,.example",
    "all_proxy": "socks5://proxy.example:1080",
    "SSL_CERT_FILE": "/etc/company.pem",
    "SSL_CERT_DIR": "/etc/certs",
    "REQUESTS_CA_BUNDLE": "/etc/company.pem",
    "NODE_EXTRA_CA_CERTS": "/etc/company.pem",
    "CURL_CA_BUNDLE": "/etc/company.pem",
    "GIT_SSL_CAINFO": "/etc/company.pem",
    "npm_config_registry": "https://npm.example/",
    "NPM_CONFIG_@corp:registry": "https://corp.example/",
    "npm_config_cafile": "/etc/company.pem",
    "npm_config_min_release_age": "3",
    "PIP_INDEX_URL": "https://pypi.example/simple",
    "UV_DEFAULT_INDEX": "https://pypi.example/simple",
    "UV_EXCLUDE_NEWER": "2026-11-01",
    "BUN_CONFIG_REGISTRY": "https://npm.example/",
    "LANG": "ja_JP.UTF-8",
    "LC_TIME": "ja_JP.UTF-8",
    "TZ": "Asia/Tokyo",
    "XDG_CACHE_HOME": "/home/a/cache",
    "TMPDIR": "/var/tmp",
    "NVM_DIR": "/home/a/.nvm",
    "VOLTA_HOME": "/home/a/.volta",
    "UV_TOOL_DIR": "/home/a/tools",
    "DOCKER_HOST": "ssh://hana@build.example",
    "HOMEBREW_PREFIX": "/opt/homebrew",
}
NAMES = st.text(string.ascii_letters + string.digits + "_@:/-", min_size=1, max_size=24)
VALUES = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=40)
ENVIRONMENTS = st.dictionaries(
    st.one_of(NAMES, st.sampled_from([*BASIC, *WORLD, "NPM_TOKEN", "DISPLAY", "MISE_GITHUB_TOKEN"])), VALUES
)


def test_a_server_gets_what_it_needs_to_reach_the_world() -> None:
    assert child_environment({"HOME": "/home/a", **WORLD}, {}) == {"HOME": "/home/a", **WORLD}
    assert download_environment(WORLD, {}) == WORLD


def test_a_server_gets_nothing_of_the_desktop_and_nothing_unknown() -> None:
    hub = {
        "DISPLAY": ":0",
        "XAUTHORITY": "/x",
        "DBUS_SESSION_BUS_ADDRESS": "unix:path=/x",
        "XDG_RUNTIME_DIR": "/run/user/1000",
        "SSH_AUTH_SOCK": "/run/agent",
        "PYTHONPATH": "/x",
        "LD_PRELOAD": "/x.so",
        "TABANE_HOME": "/x",
        "VIRTUAL_ENV": "/venv",
        "npm_config_yes": "true",
    }
    assert child_environment(hub, {}) == {}
    assert download_environment(hub, {}) == {}
    assert child_environment(hub, {}, ["DISPLAY", "DBUS_*"]) == {
        "DISPLAY": ":0",
        "DBUS_SESSION_BUS_ADDRESS": "unix:path=/x",
    }


def test_credentials_of_proxies_and_registries_reach_only_the_download() -> None:
    hub = {
        "HTTPS_PROXY": "http://hana:pa%20ss@proxy.example:3128",
        "http_proxy": "hana:secret@proxy.example:3128",
        "PIP_EXTRA_INDEX_URL": "https://a.example/simple https://hana:pass@b.example/simple",
        "UV_INDEX": "corp=https://hana:pass@c.example/simple",
        "npm_config_registry": "https://npm.example/?token=abc",
        "npm_config_//npm.example/:_authToken": "npm_1",
        "NPM_TOKEN": "npm_2",
        "UV_INDEX_CORP_USERNAME": "hana",
        "UV_INDEX_CORP_PASSWORD": "pass",
        "UV_KEYRING_PROVIDER": "subprocess",
        "DOCKER_HOST": "tcp://hana:pass@build.example",
    }
    assert child_environment(hub, {}) == {}
    assert download_environment(hub, {}) == hub
    assert environment_names(hub, {}).download == tuple(sorted(hub))
    assert child_environment(hub, {}, ["HTTPS_*"]) == {"HTTPS_PROXY": hub["HTTPS_PROXY"]}


def test_what_a_log_may_not_show_is_hidden_in_each_of_its_forms() -> None:
    hub = {
        "HTTPS_PROXY": "http://hana:pa%20ss@proxy.example:3128",
        "http_proxy": "hana:simple@proxy.example:3128",
        "NPM_TOKEN": "npm_2345",
        "UV_KEYRING_PROVIDER": "subprocess",
        "AWS_SECRET_ACCESS_KEY": "aws-2345",
        "AWS_REGION": "ap-northeast-1",
        "GITHUB_TOKEN": "not passed",
    }
    hide = Redactor(environment_secrets(hub, {}, ["AWS_*"])).text
    assert hide("pa%20ss, pa ss, hana:simple, simple, npm_2345, aws-2345") == "***, ***, ***, ***, ***, ***"
    assert hide("subprocess ap-northeast-1 not passed") == "subprocess ap-northeast-1 not passed"


def test_only_the_network_options_of_node_are_passed() -> None:
    hub = {"NODE_OPTIONS": "--require /tmp/debugger.js --use-system-ca --inspect=9229 --use-env-proxy"}
    assert child_environment(hub, {}) == {"NODE_OPTIONS": "--use-system-ca --use-env-proxy"}
    assert child_environment({"NODE_OPTIONS": "--require /tmp/debugger.js"}, {}) == {}
    assert child_environment(hub, {}, ["NODE_*"]) == hub


def test_secret_names_are_passed_only_by_a_pattern_that_matches_them() -> None:
    hub = {"AWS_SECRET_ACCESS_KEY": "k", "AWS_REGION": "r", "MISE_GITHUB_TOKEN": "t", "OPENAI_API_KEY": "o"}
    assert child_environment(hub, {}) == {}
    assert child_environment(hub, {}, ["AWS_*"]) == {"AWS_SECRET_ACCESS_KEY": "k", "AWS_REGION": "r"}
    names = environment_names(hub, {}, ["AWS_*"])
    assert names.passed == ("AWS_REGION", "AWS_SECRET_ACCESS_KEY")
    assert names.withheld == ("MISE_GITHUB_TOKEN", "OPENAI_API_KEY")


def test_tabanes_own_variables_must_be_named_as_such() -> None:
    hub = {"TABANE_TOKEN": "t", "OTHER": "o"}
    assert child_environment(hub, {}, ["*"]) == {"OTHER": "o"}
    assert child_environment(hub, {}, ["TABANE_*"]) == {"TABANE_TOKEN": "t"}


def test_what_the_configuration_sets_wins() -> None:
    hub = {"HTTPS_PROXY": "http://hub", "PATH": "/bin"}
    wanted = {"HTTPS_PROXY": "", "PATH": "/opt/bin", "NAME": "() { :; }"}
    assert child_environment(hub, wanted, ["*"]) == wanted
    assert environment_names(hub, wanted, ["*"]).passed == ()


def test_values_that_are_too_long_stay_out() -> None:
    hub = {"LANG": "x" * (LONGEST_VALUE + 1), "TZ": "UTC"}
    assert child_environment(hub, {}) == {"TZ": "UTC"}
    assert environment_names(hub, {}).withheld == ("LANG",)
    many = {f"BIG_{number}": "x" * 60_000 for number in range(100)}
    passed = child_environment({**many, "HOME": "/home/a"}, {}, ["BIG_*"])
    assert passed["HOME"] == "/home/a"
    assert len(passed) == 1 + MOST_BYTES // 60_010


@given(ENVIRONMENTS)
def test_no_secret_passes_that_nobody_named(hub: dict[str, str]) -> None:
    passed = child_environment(hub, {})
    for name, value in passed.items():
        assert not any(word in name.upper() for word in SECRET_WORDS)
        assert kind_of(name) in (VariableKind.PLAIN, VariableKind.ADDRESS)
        assert not value.startswith("()")
        assert not has_credentials(name, value)
    assert all(hub[name] == value for name, value in passed.items() if name != "NODE_OPTIONS")


@given(ENVIRONMENTS, ENVIRONMENTS, st.lists(st.sampled_from(["*", "A*", "*_TOKEN", "TABANE_*", "LANG"])))
def test_a_download_gets_what_the_server_gets_and_the_configuration_always_wins(
    hub: dict[str, str], configured: dict[str, str], inherit: list[str]
) -> None:
    running = child_environment(hub, configured, inherit)
    downloading = download_environment(hub, configured, inherit)
    assert running.items() <= downloading.items()
    assert configured.items() <= running.items()
    names = environment_names(hub, configured, inherit)
    assert set(names.passed) == running.keys() - configured.keys()
    assert set(names.download) == downloading.keys() - running.keys()
    assert not {*names.withheld} & downloading.keys()


@given(NAMES, VALUES)
def test_an_inherited_variable_arrives_unchanged(name: str, value: str) -> None:
    inherited = child_environment({name: value}, {}, [name])
    own = name.startswith("TABANE_")
    literal = not set(name) & set("*?[")
    if literal and not own and not value.startswith("()"):
        assert inherited == {name: value}
