"""Checks of the settings of OAuth."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tabane.errors import ConfigurationError
from tabane.settings import Settings, load_settings
from tabane.settings.addresses import is_safe_url
from tests.harness.cases import cases_beside

CASES = cases_beside(__file__)

ISSUER = "https://login.example.com/realms/team"
ASKING = {
    "oauth_introspection_url": f"{ISSUER}/introspect",
    "oauth_client_id": "hub",
    "oauth_client_secret": "${SECRET}",
}


def load(folder: Path, **flags: Any) -> Settings:
    return load_settings({"home": folder, **flags}, {"HOME": str(folder)})


@pytest.mark.parametrize(
    "flags",
    [
        {},
        {"oauth_issuer": ISSUER},
        {"oauth_issuer": "http://127.0.0.1:9000", "oauth_audience": "api://tabane"},
        {"oauth_issuer": ISSUER, "oauth_algorithms": "ES256,EdDSA"},
        {"oauth_issuer": ISSUER, **ASKING, "oauth_introspect": "always"},
    ],
)
def test_settings_that_fit_together_are_accepted(tmp_path: Path, flags: dict[str, Any]) -> None:
    assert load(tmp_path, **flags).oauth_issuer == flags.get("oauth_issuer", "")


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (
            {"oauth_issuer": "http://login.example.com"},
            "oauth_issuer must be a URL that begins with https://",
        ),
        ({"oauth_issuer": "login.example.com"}, "oauth_issuer must be"),
        ({"oauth_issuer": ISSUER + "?a=b"}, "oauth_issuer must be"),
        ({"oauth_issuer": "https://user:pass@login.example.com"}, "oauth_issuer must be"),
        ({"oauth_issuer": ISSUER, "oauth_jwks_url": "file:///etc/passwd"}, "oauth_jwks_url must be"),
        ({"oauth_issuer": ISSUER, "oauth_algorithms": "none"}, "'none' cannot be allowed"),
        ({"oauth_issuer": ISSUER, "oauth_algorithms": "RS256,HS256"}, "'HS256' cannot be allowed"),
        ({"oauth_audience": "api://tabane"}, "oauth_issuer is not"),
        ({"oauth_issuer": ISSUER, "oauth_introspect": "always"}, "oauth_introspection_url is not set"),
        ({"oauth_issuer": ISSUER, **ASKING, "oauth_client_id": ""}, "Set both"),
    ],
)
def test_settings_that_do_not_fit_are_refused(tmp_path: Path, flags: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        load(tmp_path, **flags)
    assert said in str(caught.value)


def test_a_secret_in_the_settings_is_refused_and_not_shown(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError) as caught:
        load(tmp_path, oauth_issuer=ISSUER, **{**ASKING, "oauth_client_secret": "hunter2"})
    assert "secrets.env" in str(caught.value)
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(("url", "safe"), CASES["only_https_and_this_machine_are_asked"])
def test_only_https_and_this_machine_are_asked(url: str, safe: bool) -> None:
    assert is_safe_url(url) is safe
