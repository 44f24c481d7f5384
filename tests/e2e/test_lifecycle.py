"""The main job, with the real engine and the real model, from the command line."""

from __future__ import annotations

from pathlib import Path

import openai
import pytest

from tests.e2e.outrider_process import MODEL, NAME, Outrider, until

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]
EXAMPLE = Path(__file__).parents[2] / "examples/http_server/serve.py"


def test_from_a_model_name_to_an_endpoint_and_back(outrider: Outrider, tmp_path: Path) -> None:
    said = outrider.run("endpoint", "create", "--model", MODEL)
    assert "outrider up" in said
    for stage in ("preparing", "starting", "warming", "ready"):
        assert stage in said
    _stream_with_the_official_client(outrider)

    source = outrider.run("endpoint", "source", NAME)
    assert "slots=4," in source
    edited = tmp_path / "serve.py"
    edited.write_text(source.replace("slots=4,", "slots=2,"))
    outrider.run("deploy", str(edited))
    info = outrider.json("endpoint", "info", NAME)
    assert (info["revision"]["number"], info["revision"]["status"], info["source_edited"]) == (2, "active", True)
    assert [r["status"] for r in info["revisions"]] == ["retired", "active"]
    answer = outrider.chat()
    assert answer.status_code == 200
    assert answer.headers["x-outrider-revision"].startswith("2-")

    outrider.run("endpoint", "stop", NAME)
    until(lambda: outrider.json("endpoint", "info", NAME)["state"] == "stopped")
    assert outrider.chat().status_code == 503
    outrider.run("endpoint", "start", NAME)
    assert outrider.chat().status_code == 200

    assert outrider.attempt("endpoint", "rm", NAME).returncode == 4
    outrider.run("endpoint", "rm", NAME, "--purge")
    until(lambda: not list(outrider.home.replicas.iterdir()))
    assert not (outrider.home.revisions / NAME).exists()
    assert outrider.json("endpoint", "list") == []
    outrider.run("down")
    assert outrider.leftovers() == []


def _stream_with_the_official_client(outrider: Outrider) -> None:
    with openai.OpenAI(base_url=f"{outrider.url}/v1", api_key="unused") as client:
        assert [model.id for model in client.models.list()] == [NAME]
        stream = client.chat.completions.create(
            model=NAME, messages=[{"role": "user", "content": "Hello!"}], max_tokens=16, stream=True
        )
        text = "".join(chunk.choices[0].delta.content or "" for chunk in stream if chunk.choices)
    assert text


def test_a_plain_http_server_deploys(outrider: Outrider) -> None:
    import httpx

    view = outrider.json("deploy", str(EXAMPLE))
    assert view["task"] == "custom"
    assert httpx.get(view["url"]).status_code == 200


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (("endpoint", "create", "--model", "no/such-model"), 3, "Nothing is known of the model"),
        (("endpoint", "create", "--model", MODEL, "--name", "Not A Label"), 2, "not-a-label"),
        (("endpoint", "create", "--model", MODEL, "--set", "contxt=1"), 2, "contxt"),
        (("endpoint", "create", "--model", MODEL, "--weights", "path:/no/such.gguf"), 8, "such.gguf"),
        (
            (
                "endpoint",
                "create",
            ),
            2,
            "--model",
        ),
        (("deploy", "/no/such/serve.py"), 2, "serve.py"),
    ],
)
def test_a_failed_create_leaves_nothing(outrider: Outrider, words: tuple[str, ...], code: int, says: str) -> None:
    outrider.run("up", "--port", str(outrider.port), "--api-port", str(outrider.api_port))
    done = outrider.attempt(*words)
    assert done.returncode == code, done.stderr
    assert says in done.stderr
    assert "Traceback" not in done.stderr
    assert outrider.json("endpoint", "list") == []
    until(lambda: not list(outrider.home.replicas.iterdir()))
    assert list(outrider.home.revisions.glob("*/*")) == []
    outrider.run("down")
    assert outrider.leftovers() == []


SERVE = """
import outrider, time
app = outrider.App("broken")
@app.server(startup_timeout=1)
class Server:
    @outrider.enter()
    def start(self):
        {body}
"""


@pytest.mark.parametrize(
    ("source", "code", "says"),
    [
        ("import outrider\nraise OSError('gone')", 2, "line 2: OSError: gone"),
        ("import outrider\napp = outrider.App('broken')", 2, "declares 0 servers"),
        (SERVE.format(body="raise OSError('gone')"), 9, "OSError: gone"),
        (SERVE.format(body="time.sleep(600)"), 9, "startup_timeout"),
        (SERVE.format(body="pass"), 9, "nothing listens"),
    ],
    ids=["raises", "declares nothing", "raises in its hook", "hangs", "never listens"],
)
def test_a_broken_serve_py_leaves_nothing(
    outrider: Outrider, tmp_path: Path, source: str, code: int, says: str
) -> None:
    file = tmp_path / "serve.py"
    file.write_text(source)
    done = outrider.attempt("deploy", str(file))
    assert done.returncode == code, done.stderr
    assert says in done.stderr
    assert "Traceback" not in done.stderr.partition("log:")[0]
    assert outrider.json("endpoint", "list") == []
    until(lambda: not list(outrider.home.replicas.iterdir()))
    assert list(outrider.home.revisions.glob("*/*")) == []


def test_a_bad_deployment_changes_nothing_that_serves(outrider: Outrider, tmp_path: Path) -> None:
    outrider.run("endpoint", "create", "--model", MODEL)
    assert outrider.attempt("endpoint", "create", "--model", MODEL).returncode == 4
    source = outrider.run("endpoint", "source", NAME)
    bad = tmp_path / "serve.py"
    bad.write_text(source.replace('sha256="b1', 'sha256="c1'))
    done = outrider.attempt("deploy", str(bad))
    assert done.returncode == 8, done.stderr
    assert "SHA-256" in done.stderr
    info = outrider.json("endpoint", "info", NAME)
    assert (info["state"], info["revision"]["number"]) == ("ready", 1)
    assert [r["status"] for r in info["revisions"]] == ["active", "failed"]
    assert outrider.chat().status_code == 200


def test_a_taken_port_is_one_line(outrider: Outrider) -> None:
    import socket

    with socket.create_server(("127.0.0.1", outrider.port)):
        done = outrider.attempt("endpoint", "create", "--model", MODEL)
    assert done.returncode == 7
    assert f"Port {outrider.port}" in done.stderr
    outrider.run("down")
    assert outrider.leftovers() == []
