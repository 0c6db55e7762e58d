"""Certificates of tests: an authority, the files of a hub's certificate, and contexts that trust it."""

from __future__ import annotations

import os
import ssl
from pathlib import Path
from typing import Any

import trustme


class HubCertificate:
    """The files that a hub with TLS has, in a folder of a test."""

    def __init__(self, folder: Path, *names: str) -> None:
        self.authority = trustme.CA()
        self.certificate, self.key, self.ca = (folder / f"{name}.pem" for name in ("hub", "key", "ca"))
        self.authority.cert_pem.write_to_path(str(self.ca))
        self.issue(*(names or ("127.0.0.1", "localhost")))

    def issue(self, *names: str) -> None:
        """Write a new certificate and its key over the old ones."""
        issued = self.authority.issue_cert(*names)
        self.key.unlink(missing_ok=True)
        with open(os.open(self.key, os.O_WRONLY | os.O_CREAT, 0o600), "wb") as file:
            file.write(issued.private_key_pem.bytes())
        self.certificate.write_bytes(b"".join(blob.bytes() for blob in issued.cert_chain_pems))
        self.certificate.chmod(0o644)

    @property
    def settings(self) -> dict[str, Any]:
        """What the hub is told."""
        return {"tls_certificate": self.certificate, "tls_key": self.key}

    def trusted(self) -> ssl.SSLContext:
        """How a client trusts it."""
        return ssl.create_default_context(cafile=str(self.ca))
