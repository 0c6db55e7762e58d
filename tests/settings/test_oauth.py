"""Checks of the settings of OAuth."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tabane.errors import ConfigurationError
from tabane.settings import Settings, load_settings
from tabane.settings.oauth import is_safe_url
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


@pytest.mark.parametrize("flags", CASES["settings_that_fit_together_are_accepted"])
def test_settings_that_fit_together_are_accepted(tmp_path: Path, flags: dict[str, Any]) -> None:
    assert load(tmp_path, **flags).oauth_issuer == flags.get("oauth_issuer", "")


@pytest.mark.parametrize(("flags", "said"), CASES["settings_that_do_not_fit_are_refused"])
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
