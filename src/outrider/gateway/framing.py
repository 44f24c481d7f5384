"""Heads that can be parsed and are refused all the same: another server on the way may read them in another way."""

from __future__ import annotations

from collections.abc import Sequence
from http import HTTPStatus

from outrider.gateway import responses
from outrider.gateway.responses import Response

_VERSIONS = ("1.1", "1.0")


def fault(version: str, headers: Sequence[tuple[bytes, bytes]]) -> Response | None:
    """The refusal of a head, or None where nothing is wrong with it.

    Args:
        version: of HTTP, ``1.1``. The parser also takes ``0.9``, which it sees in a line without a version.
        headers: names lowercased. More than one ``Host`` is RFC 9112 §3.2's 400; a coding other than ``chunked``, once,
            is §6.1's 501: the body would reach the replica with one of its codings on and no header that says so.
    """
    if version not in _VERSIONS:
        message = f"HTTP/{version} is not served here; send HTTP/1.1"
        return responses.error(HTTPStatus.HTTP_VERSION_NOT_SUPPORTED, message, code="version_not_supported")
    names = [name for name, _ in headers]
    if names.count(b"host") > 1:
        return responses.error(400, "The request names more than one Host", code="bad_request")
    if b"transfer-encoding" in names:
        codings = [value.lower() for name, value in headers if name == b"transfer-encoding"]
        if codings != [b"chunked"]:
            message = "The only transfer coding of a request that is read here is 'chunked', once"
            return responses.error(HTTPStatus.NOT_IMPLEMENTED, message, code="transfer_coding_not_supported")
    return None
