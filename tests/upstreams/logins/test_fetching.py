"""Places that requests of logins may go to: none in the network around the hub, for a server outside."""

from __future__ import annotations

from ipaddress import ip_address

import pytest

from tabane.reader.guard import fault
from tabane.servers.server import Server
from tabane.servers.server_keys import OAuthOptions
from tabane.upstreams.logins.fetching import LoginHttp, LoginRequestFailed
from tabane.upstreams.logins.login_book import LoginNetwork

NETWORK = LoginNetwork({}, lambda address: fault(ip_address(address)))
PUBLIC, PRIVATE, HERE = "https://93.184.216.34/mcp", "https://10.0.0.5/mcp", "http://127.0.0.1:9/mcp"


@pytest.mark.parametrize(
    ("server", "url", "words"),
    [
        (PUBLIC, "https://10.0.0.5/as", "not public"),
        (PUBLIC, "https://127.0.0.1/as", "not public"),
        (PUBLIC, "https://localhost/as", "not public"),
        (PUBLIC, "https://[::1]/as", "not public"),
        (PUBLIC, "https://[::ffff:10.0.0.5]/as", "not public"),
        (PUBLIC, "https://169.254.169.254/latest", "not public"),
        (PUBLIC, "http://127.0.0.1/as", "HTTPS is required"),
        (PUBLIC, "http://93.184.216.34/as", "HTTPS is required"),
        (PUBLIC, "https://user:word@93.184.216.34/as", "HTTPS is required"),
        (PRIVATE, "https://169.254.169.254/latest", "not public"),
        (PRIVATE, "https://127.0.0.1/as", "not public"),
        (PRIVATE, "http://10.0.0.6/as", "HTTPS is required"),
        (HERE, "http://10.0.0.6/as", "HTTPS is required"),
        (HERE, "https://169.254.169.254/latest", "not public"),
    ],
)
async def test_a_place_that_the_server_may_not_name_is_not_asked(server: str, url: str, words: str) -> None:
    async with LoginHttp(Server("up", transport="http", url=server), NETWORK) as http:
        with pytest.raises(LoginRequestFailed) as refused:
            await http.get(url)
        assert words in str(refused.value.why)


async def test_an_issuer_that_the_user_named_may_be_in_a_private_network() -> None:
    options = OAuthOptions(issuer="https://127.0.0.1:1/as")
    async with LoginHttp(Server("up", transport="http", url=PUBLIC, oauth=options), NETWORK) as http:
        with pytest.raises(LoginRequestFailed) as failed:
            await http.get("https://127.0.0.1:1/as")
        assert "cannot be reached" in str(failed.value.why)
