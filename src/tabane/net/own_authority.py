"""Certificates for a home network: an authority of this hub's own, and the certificate that it signs.

Colleagues trust the authority once. Its certificate is in ``ca.pem``; with ``ca.key``, the hub's certificate
is renewed without them. The authority may sign for the names of the first certificate, ``.local`` and private
addresses alone (name constraints), so nobody can use its key to impersonate another site.

All files are in the folder ``tls`` of the home, for its owner alone. ``cryptography`` is imported late: it is
an extra, and large.
"""

from __future__ import annotations

import ipaddress
import re
import socket
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from tabane.errors import BadArguments, ConfigurationError
from tabane.extras import extra_command
from tabane.messages import say
from tabane.settings.files import private_folder, read_private, read_trusted, write_private

if TYPE_CHECKING:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey

    from tabane.settings import Settings

FOLDER = "tls"
CERTIFICATE, KEY, CA, CA_KEY = "hub.pem", "hub.key", "ca.pem", "ca.key"

DAYS = 397
"""Days that a certificate is valid: browsers accept no longer ones."""

CA_DAYS = 3650

_THIS_MACHINE = ("localhost", "127.0.0.1", "::1")
_PRIVATE = (
    "10.0.0.0/8",
    "172.16.0.0/12",
    "192.168.0.0/16",
    "100.64.0.0/10",
    "127.0.0.0/8",
    "fc00::/7",
    "::1/128",
)
_LABEL = r"(?!-)[a-z0-9_-]{1,63}(?<!-)"
_is_name = re.compile(rf"{_LABEL}(\.{_LABEL})*").fullmatch


class OwnCertificate(NamedTuple):
    """The files of a certificate that was made. ``new_authority``: colleagues have to trust another one."""

    certificate: Path
    key: Path
    authority: Path
    names: tuple[str, ...]
    new_authority: bool


def is_own(certificate: Path | None, home: Path) -> bool:
    """Return whether a certificate is the one that Tabane made in this home."""
    return certificate is not None and certificate == home / FOLDER / CERTIFICATE


def authority_file(settings: Settings) -> Path | None:
    """Return the file of the authority that colleagues have to trust; None if they need none."""
    own = is_own(settings.tls_certificate, settings.home)
    return settings.home / FOLDER / CA if own else None


def names_of_machine() -> list[str]:
    """Return names and addresses under which other machines of the network may reach this one."""
    host = socket.gethostname().lower().rstrip(".")
    found = [host] if _is_name(host) else []
    if found and "." not in host:
        found = [f"{host}.local", host]
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # chooses the address; nothing is sent
            found.append(str(probe.getsockname()[0]))
        except OSError:
            pass  # no network
    return [name for name in found if name not in _THIS_MACHINE and not name.startswith("localhost")]


def checked_names(given: Iterable[str]) -> list[str]:
    """Return names of hosts and addresses as a certificate has them. Raises BadArguments."""
    found: list[str] = []
    for name in given:
        text = name.strip().lower().rstrip(".").strip("[]")
        try:
            text = str(ipaddress.ip_address(text))
        except ValueError:
            if not text.isascii():
                import idna  # names in other scripts are rare

                try:
                    text = idna.encode(text).decode()
                except idna.IDNAError:
                    text = ""
            if not _is_name(text) or len(text) > 253:
                raise BadArguments(
                    say(
                        "{name} is not the name of a host or an address. Write names as in a URL, such as "
                        "hub.local or 192.168.1.20.",
                        name=name[:100],
                    ),
                    "NAME",
                ) from None
        found.append(text)
    return list(dict.fromkeys(found))


def create_certificate(home: Path, names: Sequence[str], *, new_authority: bool = False) -> OwnCertificate:
    """Make a certificate for these names, and an authority if there is none or ``new_authority`` is set.

    Without names, it has those of the certificate that it replaces, or the names of this machine. Raises
    BadArguments if the authority may not sign for a name, and ConfigurationError if a file cannot be used.
    """
    _check_installed()
    folder = home / FOLDER
    private_folder(folder)
    wanted = list(names) or _names_in(folder / CERTIFICATE) or names_of_machine()
    if not wanted:
        raise BadArguments(
            say("This machine has no name in a network. Name it: tabane tls create hub.local"), "NAME"
        )
    try:
        authority = None if new_authority else _stored_authority(folder)
        made = authority is None
        if authority is None:
            authority = _new_authority(wanted)
        _check_permitted(authority.certificate, wanted)
        certificate, key = _issue(authority, wanted)
        if made:
            write_private(folder / CA_KEY, _pem_of_key(authority.key))
            write_private(folder / CA, _pem(authority.certificate))
        # a hub that reads between the two keeps the old pair, and reads again
        write_private(folder / KEY, _pem_of_key(key))
        write_private(folder / CERTIFICATE, _pem(certificate) + _pem(authority.certificate))
    except OSError as error:
        raise ConfigurationError(
            say("{path} cannot be written: {reason}.", path=folder, reason=error.strerror)
        ) from None
    return OwnCertificate(folder / CERTIFICATE, folder / KEY, folder / CA, tuple(wanted), made)


class _Authority(NamedTuple):
    certificate: x509.Certificate
    key: EllipticCurvePrivateKey


def _check_installed() -> None:
    try:
        import cryptography  # noqa: F401
    except ImportError:
        raise ConfigurationError(
            say(
                "Certificates need the packages of tabane[tls]. Install them: {command}",
                command=extra_command("tls"),
            )
        ) from None


def _stored_authority(folder: Path) -> _Authority | None:
    """Return the authority of this home; None if there is none, or it ends before a new certificate."""
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    try:
        key = load_pem_private_key(read_private(folder / CA_KEY), None)
        certificate = x509.load_pem_x509_certificate(read_trusted(folder / CA))
        if key.public_key() != certificate.public_key():  # of a change that was killed between the two files
            raise ValueError
    except FileNotFoundError:
        return None
    except ValueError:
        raise ConfigurationError(
            say(
                "{path} is damaged. Make another authority with: tabane tls create --new-authority",
                path=folder / CA,
            )
        ) from None
    assert isinstance(key, EllipticCurvePrivateKey)
    lasts = certificate.not_valid_after_utc > datetime.now(UTC) + timedelta(days=DAYS)
    return _Authority(certificate, key) if lasts else None


def _names_in(path: Path) -> list[str]:
    """Return the names of a certificate without those of this machine itself; none if it is not there."""
    from cryptography import x509

    try:
        certificate = x509.load_pem_x509_certificate(read_trusted(path))
        found = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (FileNotFoundError, ValueError, x509.ExtensionNotFound):
        return []
    return [str(each.value) for each in found if str(each.value) not in _THIS_MACHINE]


def _new_authority(names: Sequence[str]) -> _Authority:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    permitted = [
        *(x509.DNSName(name) for name in dict.fromkeys(("localhost", "local", *filter(_is_dns, names)))),
        *(x509.IPAddress(ipaddress.ip_network(each)) for each in _PRIVATE),
        *(x509.IPAddress(ipaddress.ip_network(name)) for name in names if not _is_dns(name)),
    ]
    usage = x509.KeyUsage(
        key_cert_sign=True, crl_sign=True, digital_signature=False, content_commitment=False,
        key_encipherment=False, data_encipherment=False, key_agreement=False, encipher_only=False,
        decipher_only=False,
    )  # fmt: skip
    name = x509.Name(
        [_attribute("COMMON_NAME", f"Tabane {names[0]}"[:64]), _attribute("ORGANIZATION_NAME", "Tabane")]
    )
    builder = (
        _builder(name, name, key, CA_DAYS)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(x509.NameConstraints(permitted, None), critical=True)
    )
    return _Authority(_signed(builder, key), key)


def _issue(authority: _Authority, names: Sequence[str]) -> tuple[x509.Certificate, EllipticCurvePrivateKey]:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import ExtendedKeyUsageOID

    key = ec.generate_private_key(ec.SECP256R1())
    everything = dict.fromkeys((*names, *_THIS_MACHINE))
    alternatives = [
        x509.DNSName(name) if _is_dns(name) else x509.IPAddress(ipaddress.ip_address(name))
        for name in everything
    ]
    usage = x509.KeyUsage(
        digital_signature=True, key_cert_sign=False, crl_sign=False, content_commitment=False,
        key_encipherment=False, data_encipherment=False, key_agreement=False, encipher_only=False,
        decipher_only=False,
    )  # fmt: skip
    subject = x509.Name([_attribute("COMMON_NAME", names[0][:64])])
    issuer = x509.SubjectKeyIdentifier.from_public_key(authority.key.public_key())
    builder = (
        _builder(subject, authority.certificate.subject, key, DAYS)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectAlternativeName(alternatives), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(issuer), critical=False)
    )
    return _signed(builder, authority.key), key


def _builder(
    subject: x509.Name, issuer: x509.Name, key: EllipticCurvePrivateKey, days: int
) -> x509.CertificateBuilder:
    from cryptography import x509

    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))  # clocks of other machines may be behind
        .not_valid_after(now + timedelta(days=days) - timedelta(hours=1))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )


def _attribute(name: str, value: str) -> Any:
    from cryptography import x509

    return x509.NameAttribute(getattr(x509.NameOID, name), value)


def _signed(builder: x509.CertificateBuilder, key: EllipticCurvePrivateKey) -> x509.Certificate:
    from cryptography.hazmat.primitives import hashes

    return builder.sign(key, hashes.SHA256())


def _check_permitted(authority: x509.Certificate, names: Sequence[str]) -> None:
    """Raise BadArguments if clients would refuse a certificate of the authority for one of these names."""
    from cryptography import x509

    found = authority.extensions.get_extension_for_class(x509.NameConstraints).value
    permitted = [each.value for each in found.permitted_subtrees or ()]
    hosts = [each for each in permitted if isinstance(each, str)]
    networks = [each for each in permitted if not isinstance(each, str)]
    for name in names:
        if _is_dns(name):
            allowed = any(name == host or name.endswith(f".{host}") for host in hosts)
        else:
            address = ipaddress.ip_address(name)
            allowed = any(address.version == each.version and address in each for each in networks)
        if not allowed:
            raise BadArguments(
                say(
                    "The authority that your colleagues trust may not sign for {name}. Make another one "
                    "with: tabane tls create --new-authority NAME… They then need its file {path}.",
                    name=name,
                    path=CA,
                ),
                "NAME",
            )


def _is_dns(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return True
    return False


def _pem(certificate: x509.Certificate) -> bytes:
    from cryptography.hazmat.primitives.serialization import Encoding

    return certificate.public_bytes(Encoding.PEM)


def _pem_of_key(key: EllipticCurvePrivateKey) -> bytes:
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
