"""TLS by files: what clients connect with when the gateway is not behind something else that speaks TLS."""

from __future__ import annotations

import ssl
from pathlib import Path

from outrider.errors import CertificateUnusable


def context(certificate: Path, key: Path) -> ssl.SSLContext:
    """A server's context: TLS 1.2 and later, HTTP/1.1 by ALPN.

    Args:
        certificate: PEM file with the certificate and those that vouch for it, in order.
        key: PEM file with its private key, not encrypted.

    Raises:
        CertificateUnusable
    """
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    made.minimum_version = ssl.TLSVersion.TLSv1_2
    made.set_alpn_protocols(["http/1.1"])
    load(made, certificate, key)
    return made


def load(context: ssl.SSLContext, certificate: Path, key: Path) -> None:
    """Read both files into a context; connections made from now on use them, those that are open keep theirs.

    Raises:
        CertificateUnusable
    """
    try:
        context.load_cert_chain(certificate, key, password=_no_password)
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) and not isinstance(error, ssl.SSLError) else str(error)
        raise CertificateUnusable(
            f"Cannot serve TLS with {certificate} and {key}",
            why=why,
            remedy="Give PEM files: --tls-cert with the whole chain, --tls-key with its key, readable and unencrypted.",
        ) from error


def _no_password() -> str:
    raise ValueError("the key is encrypted")
