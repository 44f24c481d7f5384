"""pip's configuration in uv's words."""

from __future__ import annotations

from pathlib import Path

import pytest

from outrider.app.pip_settings import constraints, parse, pip_settings, uv_flags, uv_variables
from outrider.errors import EnvironmentFailed


def test_every_kind_of_setting() -> None:
    settings = {
        "index-url": "https://u:p@mirror/simple",
        "extra-index-url": "https://a/simple\nhttps://b/simple",
        "find-links": "/w1\n/w2",
        "constraint": "/c.txt",
        "trusted-host": "mirror",
        "cert": "/ca.pem",
        "proxy": "http://proxy:3128",
        "default-timeout": "180",
        "no-index": "false",
        "pre": "yes",
        "only-binary": ":all:",
        "no-binary": "six,idna",
        "progress-bar": "off",
    }
    assert uv_variables(settings, {}) == {
        "UV_DEFAULT_INDEX": "https://u:p@mirror/simple",
        "UV_INDEX": "https://a/simple https://b/simple",
        "UV_INDEX_STRATEGY": "unsafe-best-match",
        "UV_FIND_LINKS": "/w1,/w2",
        "UV_CONSTRAINT": "/c.txt",
        "UV_INSECURE_HOST": "mirror",
        "SSL_CERT_FILE": "/ca.pem",
        "ALL_PROXY": "http://proxy:3128",
        "UV_HTTP_TIMEOUT": "180",
    }
    flags = ["--prerelease", "allow", "--only-binary", ":all:", "--no-binary", "six", "--no-binary", "idna"]
    assert uv_flags(settings) == flags
    assert uv_flags({"no-index": "true"}) == ["--no-index"]


@pytest.mark.parametrize("own", ["UV_DEFAULT_INDEX", "UV_INDEX_URL"])
def test_what_is_said_to_uv_already_wins(own: str) -> None:
    assert uv_variables({"index-url": "https://pips"}, {own: "https://uvs"}) == {}


def test_variables_win_over_the_command_and_that_over_the_global_section() -> None:
    listing = (
        ":env:.find-links='/env'\nglobal.find-links='/global'\ninstall.find-links='/install'\n"
        "install.timeout='5'\nglobal.index-url='https://x'\ndownload.index-url='https://not-for-installing'\n"
        "WARNING: something\nglobal.broken='\n"
    )
    assert parse(listing) == {"find-links": "/env", "timeout": "5", "index-url": "https://x"}


def test_pip_itself_is_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "pip.conf"
    file.write_text("[install]\nextra-index-url =\n    https://one/simple\n    https://two/simple\n")
    monkeypatch.setenv("PIP_CONFIG_FILE", str(file))
    monkeypatch.setenv("PIP_FIND_LINKS", "/from/variable")
    found = pip_settings()
    assert found["extra-index-url"].split() == ["https://one/simple", "https://two/simple"]
    assert found["find-links"] == "/from/variable"


@pytest.mark.parametrize(
    ("text", "said"), [("no sections\n", "no section headers"), ("[global]\ntimeout = soon\n", "timeout")]
)
def test_a_configuration_that_pip_cannot_read_is_said(
    text: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "pip.conf").write_text(text)
    monkeypatch.setenv("PIP_CONFIG_FILE", str(tmp_path / "pip.conf"))
    monkeypatch.delenv("PIP_DEFAULT_TIMEOUT", raising=False)
    with pytest.raises(EnvironmentFailed, match=said) as caught:
        pip_settings()
    assert "\n" not in str(caught.value)


def test_constraint_files_are_read_for_what_they_say(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("# comment\ntorch<3  # why\n\nsix==1.16.0\n")
    (tmp_path / "b.txt").write_text("idna>3\n")
    said = {"UV_CONSTRAINT": f"{tmp_path}/a.txt file://{tmp_path}/b.txt https://nowhere/c.txt"}
    assert constraints(said, {}) == ["https://nowhere/c.txt", "idna>3", "six==1.16.0", "torch<3"]
    assert constraints({}, said) == constraints(said, {})
