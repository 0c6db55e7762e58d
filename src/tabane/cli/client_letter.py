"""Instructions for the person who gets a new API key: an entry for one assistant, or a letter for several.

Both contain the key, so they are printed to standard output and nowhere else. Notes go to standard error.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit

from msgspec import Struct, convert

from tabane.cli.install import known_client
from tabane.cli.output import Terminal, local_minute, text
from tabane.errors import ConfigurationError, TabaneError
from tabane.hub.http.certificate_facts import certificate_facts
from tabane.hub.local.endpoint import home_of
from tabane.hub.local.known_hubs import known_hub
from tabane.messages import Message, say
from tabane.net.own_authority import authority_file
from tabane.servers.assistants.remote import REMOTE_HOSTS, remote_block
from tabane.servers.assistants.table import client_named
from tabane.settings import load_settings
from tabane.settings.addresses import WILDCARDS, in_url, is_this_machine

if TYPE_CHECKING:
    from tabane.servers.assistants.table import Client
    from tabane.settings import Settings

NAME = "tabane"
"""The name of the hub in an assistant."""

CA_FILE = "tabane-ca.pem"
"""The name under which a colleague saves the authority."""

IN_LETTER = ("claude-code", "cursor", "vscode", "codex")
"""The assistants that a letter describes."""


class HubReach(NamedTuple):
    """How others reach the hub: its URL without a path, and the file of its authority, if it has its own.

    ``problem`` is why they do not reach it yet, and what to do.
    """

    base: str
    authority: Path | None
    problem: Message | None = None

    def url(self, client: Client) -> str:
        """Return the URL of MCP in the mode that suits an assistant."""
        return f"{self.base}/mcp/{client.mode}"


class NewKey(Struct, frozen=True):
    """The facts about a key that a letter contains."""

    secret: str
    person: str | None = None
    expires: str | None = None


class ClientText(Struct, frozen=True):
    """The text to send with a new key: the entry for ``host``, or a letter. ``notes`` are for the sender."""

    host: str | None
    url: str
    text: str
    authority: str | None
    notes: list[str]


def check_reach(terminal: Terminal, host: str) -> None:
    """Raise UnknownName for the host, and ConfigurationError if nobody can connect, before a key is made."""
    if host:
        known_client(host)
    hub_reach(terminal)


def hub_reach(terminal: Terminal) -> HubReach:
    """Return how others reach the hub of this command. Raises ConfigurationError if it serves no HTTP."""
    if terminal.url and "://" in terminal.url:
        return _remote_reach(terminal.url)
    status = terminal.hub().call("hub_status")
    served = urlsplit(status.get("http") or "")
    settings = load_settings({}, os.environ)
    if not settings.http or (served.hostname is None and is_this_machine(settings.host)):
        raise ConfigurationError(
            say(
                "The hub serves no HTTP, so nobody can connect with this key: {why}",
                why=status.get("http_problem") or say("the setting http is off"),
            )
        )
    port = settings.port or served.port
    if is_this_machine(settings.host) and not settings.trusted_proxies:
        scheme = "https" if settings.tls_certificate else "http"
        return HubReach(f"{scheme}://127.0.0.1:{port}", authority_file(settings), _only_here(settings))
    base = settings.public_url.rstrip("/") or f"https://{_certified_name(settings)}:{port}"
    waiting = served.hostname is None or is_this_machine(served.hostname)
    problem = say("The hub does not listen for other machines yet. Run: tabane restart")
    return HubReach(
        base, authority_file(settings), problem if waiting and not settings.trusted_proxies else None
    )


def _remote_reach(url: str) -> HubReach:
    parts = urlsplit(url)
    tls = parts.scheme in ("https", "wss")
    known = known_hub(home_of(os.environ), parts.hostname or "", parts.port or 443, tls=tls)
    authority = os.environ.get("TABANE_CA") or known.authority
    base = f"{'https' if tls else 'http'}://{parts.netloc}"
    return HubReach(base, Path(authority) if authority else None)


def _certified_name(settings: Settings) -> str:
    """Return the first name in the certificate that other machines may use; else the address."""
    try:
        seen = certificate_facts(settings)
    except TabaneError:
        seen = None
    names = [name for name in (seen.names if seen else ()) if not is_this_machine(name)]
    if settings.host not in WILDCARDS:
        names.append(settings.host)
    if not names:
        raise ConfigurationError(
            say("Set the address at which others reach the hub: tabane settings set public_url URL")
        )
    return in_url(names[0])


def _only_here(settings: Settings) -> Message:
    if settings.tls_certificate:
        return say(
            "Only programs on this machine can use this. For colleagues, run: tabane settings set host "
            "0.0.0.0, then tabane restart. Then create the key again."
        )
    return say(
        "Only programs on this machine can use this. For colleagues, run: tabane tls create, then "
        "tabane settings set host 0.0.0.0, then tabane restart. Then create the key again."
    )


def client_text(terminal: Terminal, made: dict[str, Any], host: str) -> ClientText:
    """Return what to send with a new key, which is the result of keys_create. Raises ConfigurationError."""
    client = known_client(host) if host else None
    reach, key = hub_reach(terminal), convert(made, NewKey)
    problem = [reach.problem] if reach.problem else []
    authority = str(reach.authority) if reach.authority else None
    if client is None:
        letter = "\n".join(_letter(key, reach)) + "\n"
        return ClientText(None, f"{reach.base}/mcp", letter, authority, list(map(text, problem)))
    block = client_block(client, reach, key.secret)
    notes = [text(note) for note in (*_notes(client, reach), *problem)]
    return ClientText(client.name, reach.url(client), block, authority, notes)


def client_block(client: Client, reach: HubReach, key: str) -> str:
    """Return what connects an assistant: its own entry, or the command of Tabane that writes one."""
    block = remote_block(client, NAME, reach.url(client), key)
    return block or f"echo {key} | {_install_line(client.name, reach)} --key-from-stdin\n"


def _install_line(host: str, reach: HubReach) -> str:
    return f"tabane install {host} --url {reach.base}" + (f" --ca ~/{CA_FILE}" if reach.authority else "")


def _notes(client: Client, reach: HubReach) -> Iterator[Message]:
    host = REMOTE_HOSTS.get(client.name)
    if host is None:
        yield say("A colleague who has Tabane runs this line. It sets up {title}.", title=client.title)
    elif client.name != "claude-code":
        yield say("Add it to this file of {title}: {path}", title=client.title, path=_file(client))
    if reach.authority is not None:
        yield say(
            "Send this file too. Your colleague saves it as {name} in the home folder: {path}",
            name=CA_FILE,
            path=reach.authority,
        )
        if host is not None:
            yield _trust(client.title, host.trust)


def _file(client: Client) -> str:
    """Return the path of an assistant's file as people write it."""
    assert client.user is not None
    path = client.user.paths[0]
    inside = path.partition("/")[2]
    if path.startswith("@config/"):
        return f"~/.config/{inside} (macOS: ~/Library/Application Support/{inside})"
    return f"~/.config/{inside}" if path.startswith("@xdg/") else f"~/{path}"


def _trust(title: str, trust: str) -> Message:
    """Return how an assistant trusts the authority."""
    if trust == "system":
        return say(
            "{title} trusts what the system trusts. Add {file} to the system's certificates, or use tabane "
            "install instead, which changes nothing in the system.",
            title=title,
            file=CA_FILE,
        )
    variable = "NODE_EXTRA_CA_CERTS" if trust == "node" else "CODEX_CA_CERTIFICATE"
    return say(
        "{title} reads the authority from a variable. Set it where {title} is started: "
        'export {variable}="$HOME/{file}"',
        title=title,
        variable=variable,
        file=CA_FILE,
    )


def _letter(key: NewKey, reach: HubReach) -> Iterator[str]:
    """Yield the lines of the letter, in the language of the one who writes it."""
    yield text(say("Hello {person},", person=key.person) if key.person else say("Hello,"))
    yield ""
    yield text(
        say(
            "with this key, your AI assistant can use our tools. The key is yours alone: calls are recorded "
            "under your name. Do not pass it on."
        )
    )
    yield ""
    yield f"{text(say('Address'))}: {reach.base}/mcp"
    yield f"{text(say('Key'))}: {key.secret}"
    if key.expires:
        yield f"{text(say('Valid until'))}: {local_minute(key.expires)}"
    if reach.authority is not None:
        yield ""
        yield text(
            say(
                "The hub has a certificate of its own authority. Save the following lines as {file} in your "
                "home folder:",
                file=CA_FILE,
            )
        )
        yield ""
        yield reach.authority.read_text("ascii").strip()
    yield ""
    yield text(say("Then choose one of these ways."))
    yield ""
    yield f"- {text(say('With Tabane on your machine, for any assistant. It asks for the key:'))}"
    yield ""
    yield _indented(_install_line("claude-code", reach))
    for name in IN_LETTER:
        client, host = client_named(name), REMOTE_HOSTS[name]
        assert client is not None
        yield ""
        yield f"- {client.title}{'' if name == 'claude-code' else f' ({_file(client)})'}:"
        yield ""
        yield _indented(client_block(client, reach, key.secret))
        if reach.authority is not None:
            yield ""
            yield _indented(text(_trust(client.title, host.trust)), "  ")


def _indented(block: str, by: str = "    ") -> str:
    return "\n".join(f"{by}{line}" if line else "" for line in block.rstrip("\n").split("\n"))
