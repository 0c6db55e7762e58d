"""`tabane tls`: the certificate with which other machines reach the hub, made and shown."""

from __future__ import annotations

import os
import time
from datetime import datetime
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import click
from msgspec import Struct, structs

from tabane.cli.operation_command import print_facts
from tabane.cli.options import option, with_json
from tabane.cli.output import Group, Terminal, examples
from tabane.cli.passphrase import check_passphrase
from tabane.errors import ConfigurationError
from tabane.hub.http.certificate_facts import certificate_facts, fingerprint_of
from tabane.hub.process.settings_file import change_file, settings_with
from tabane.messages import Message, say
from tabane.net.own_authority import authority_file, checked_names, create_certificate, is_own
from tabane.settings import load_settings
from tabane.settings.addresses import in_url, is_this_machine
from tabane.settings.editing import with_value

if TYPE_CHECKING:
    from tabane.net.own_authority import OwnCertificate
    from tabane.settings import Settings


@click.group(
    "tls",
    cls=Group,
    help=say(
        "Make a certificate for your own network, and show the one in use. With it, other machines can reach "
        "the hub over HTTPS."
    ),
)
def tls() -> None: ...


@tls.command(
    "create",
    help=say(
        "Make a certificate for these names and addresses, or renew it. Without names, it keeps those that "
        "it has, or has the names and addresses of this machine. The first time, this also makes an "
        "authority of your own, whose file ca.pem your colleagues trust. The settings tls_certificate, "
        "tls_key, hosts and public_url are set."
    ),
    epilog=examples(
        "tabane tls create", "tabane tls create hub.local 192.168.1.20", "tabane tls create --new-authority"
    ),
)
@click.argument("names", metavar="[NAME]...", nargs=-1)
@option(
    "--new-authority",
    is_flag=True,
    help=say("Make another authority. Your colleagues then need its new file ca.pem."),
)
@with_json
def create(terminal: Terminal, names: tuple[str, ...], new_authority: bool) -> None:
    settings = load_settings({}, os.environ)
    check_passphrase(terminal, settings.home)
    _check_other_certificate(settings)
    made = create_certificate(settings.home, checked_names(names), new_authority=new_authority)
    later = _write_settings(settings, made)
    found = _report(later)
    assert found is not None  # it was just made
    if terminal.show_json(structs.replace(found, new_authority=made.new_authority)):
        return
    terminal.say(
        say(
            "Created a certificate for {names}. It is valid until {day}.",
            names=", ".join(made.names),
            day=_day(found.expires),
        )
    )
    if made.new_authority:
        terminal.note(say("Your colleagues need this file once: {path}", path=made.authority))
    else:
        terminal.note(say("Your colleagues do not have to change anything: the authority is the same."))
    _tell_next_steps(terminal, later)


@tls.command(
    "show",
    help=say("Show the certificate in use: its names, expiry and fingerprint, and what colleagues need."),
    epilog=examples("tabane tls show", "tabane tls show --json"),
)
@with_json
def show(terminal: Terminal) -> None:
    settings = load_settings({}, os.environ)
    found = _report(settings)
    if found is None:
        raise ConfigurationError(
            say("There is no certificate. Make one for your own network with: tabane tls create")
        )
    if terminal.show_json(found):
        return
    shown = {"names": ", ".join(found.names), "expires": _day(found.expires)}
    print_facts(terminal, _LABELS, structs.asdict(found) | shown)
    if found.expires < time.time():
        terminal.note(say("The certificate has expired. Renew it: tabane tls create"))
    if found.authority:
        terminal.note(say("Your colleagues need the file {path} once.", path=found.authority))
    _tell_next_steps(terminal, settings)


_LABELS = {
    "certificate": say("certificate"),
    "names": say("names"),
    "expires": say("valid until"),
    "fingerprint": say("SHA-256 of the certificate"),
    "authority": say("authority, for colleagues"),
    "authority_fingerprint": say("SHA-256 of the authority"),
    "address": say("address of the hub"),
}


class CertificateReport(Struct, frozen=True):
    """What both commands show. ``expires`` is in seconds since 1970."""

    certificate: str
    names: list[str]
    expires: float
    fingerprint: str
    authority: str | None
    authority_fingerprint: str | None
    address: str | None
    new_authority: bool = False


def _report(settings: Settings) -> CertificateReport | None:
    """Return the certificate of the settings; None if they name none. Raises ConfigurationError."""
    seen = certificate_facts(settings)
    if seen is None:
        return None
    authority = authority_file(settings)
    return CertificateReport(
        str(settings.tls_certificate),
        list(seen.names),
        seen.ends,
        seen.fingerprint,
        str(authority) if authority else None,
        fingerprint_of(authority) if authority else None,
        settings.public_url or None,
    )


def _day(moment: float) -> str:
    return datetime.fromtimestamp(moment).astimezone().strftime("%Y-%m-%d")


def _check_other_certificate(settings: Settings) -> None:
    """Raise ConfigurationError if the settings name another certificate, which Tabane did not make."""
    path = settings.tls_certificate
    if path is not None and not is_own(path, settings.home):
        raise ConfigurationError(
            say(
                "The settings name another certificate: {path}. To replace it by one of Tabane, remove the "
                "settings tls_certificate and tls_key first.",
                path=path,
            )
        )


def _write_settings(settings: Settings, made: OwnCertificate) -> Settings:
    """Set what belongs to the certificate, and return the settings then. Raises ConfigurationError."""
    hosts = [*settings.hosts, *(each for each in map(in_url, made.names) if each not in settings.hosts)]
    values: dict[str, str | list[str]] = {
        "tls_certificate": str(made.certificate),
        "tls_key": str(made.key),
        "hosts": hosts,
    }
    host = urlsplit(settings.public_url).hostname
    if settings.port and not settings.trusted_proxies and host not in made.names:
        values["public_url"] = f"https://{in_url(made.names[0])}:{settings.port}"

    def edit(text: str) -> str:
        for name, value in values.items():
            text = with_value(text, (name,), value)
        return text

    lines = [f"{name} = {value!r}" for name, value in values.items()]
    change_file(settings, os.environ, edit, say("write {lines}", lines=", ".join(lines)))
    later = settings_with(settings, os.environ, None)
    if later.tls_certificate != made.certificate:
        source = later.sources.get("tls_certificate")
        where = source.where if source else ""
        raise ConfigurationError(
            say("tls_certificate is set by {where}, which comes before tabane.toml.", where=where)
        )
    return later


def _tell_next_steps(terminal: Terminal, settings: Settings) -> None:
    """Print what is left to do until other machines reach the hub."""
    step: Message | None = None
    if not settings.http:
        step = say("The hub serves no HTTP. Run: tabane settings unset http")
    elif is_this_machine(settings.host) and not settings.trusted_proxies:
        step = say(
            "Other machines cannot reach the hub yet. Let it listen at all addresses of this machine, create "
            "a key for each person, and restart it:\n  tabane settings set host 0.0.0.0\n"
            "  tabane keys create NAME --for PERSON --allow PATTERN --print-client\n  tabane restart"
        )
    if step is not None:
        terminal.note(step)
