"""Whose certificates are believed."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from tabane.errors import ReadError
from tabane.messages import say

if TYPE_CHECKING:
    from ssl import SSLContext

_BUNDLES = ("/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem")


def trusted(ca: str | None) -> SSLContext:
    """The system's authorities and those in the file ``ca``. Reads files: some 20 ms.

    Raises ReadError, cause ``tls``, where a file cannot be read.
    """
    import ssl

    context = ssl.create_default_context()
    own = [ca] if ca else []
    if not context.cert_store_stats()["x509_ca"]:
        # A Python that was built elsewhere does not know where this system keeps them.
        own += [path for path in _BUNDLES if os.path.exists(path)][:1]
    for path in own:
        try:
            context.load_verify_locations(cafile=path)
        except (OSError, ssl.SSLError) as error:
            raise ReadError(
                say(
                    "the certificates in {path} cannot be read: {error}. Mend the setting reader_ca.",
                    path=path,
                    error=error.strerror or error,
                ),
                "tls",
            ) from None
    return context
