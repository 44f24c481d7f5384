from __future__ import annotations

from pathlib import Path

import pytest

from outrider.client.auth import Address
from outrider.errors import UsageError


def test_without_a_url_it_is_the_socket_of_the_home(tmp_path: Path) -> None:
    env = {"HOME": str(tmp_path), "OUTRIDER_HOME": str(tmp_path / "a"), "OUTRIDER_KEY": "or-secret"}
    address = Address.from_environment(env)
    assert address.local
    assert address.socket is not None
    assert address.socket.name == "api.sock"
    assert address.key is None  # the same user needs none


@pytest.mark.parametrize("url", ["https://a.example", "https://a.example/", "https://a.example/api/v1"])
def test_a_url_is_taken_with_or_without_the_prefix(url: str) -> None:
    address = Address.from_environment({"OUTRIDER_URL": url, "OUTRIDER_KEY": "or-secret"})
    assert (address.url, address.key, address.local) == ("https://a.example/api/v1", "or-secret", False)


def test_the_key_is_in_no_text_of_it() -> None:
    address = Address.at_url("https://a.example", "or-secret")
    assert "secret" not in repr(address) + str(address)


@pytest.mark.parametrize(
    "url", ["a.example", "ftp://a.example", "http://", "https://u:p@a.example", "https://a/?q=1", "http://a:99999"]
)
def test_what_is_no_base_url_is_refused(url: str) -> None:
    with pytest.raises(UsageError) as caught:
        Address.at_url(url)
    assert caught.value.remedy
