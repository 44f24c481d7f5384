"""Bad command lines. Each runs twice: as people see it, and with ``--json``."""

from __future__ import annotations

import shlex
from typing import NamedTuple

import pytest

from tests.e2e.outrider_process import MODEL
from tests.matrix.house import House, command
from tests.matrix.refusal import Refusal, check_refusal


class Case(NamedTuple):
    """A command line, the code it is refused with, and a word of the refusal."""

    words: str
    code: str
    says: str
    json: bool = True


_CREATE = f"endpoint create --no-wait --model {MODEL} --name fresh"

CASES = {
    "unknown command": Case("frobnicate", "usage", "See: outrider --help"),
    "misspelt command": Case("endpiont list", "usage", "Did you mean: outrider endpoint"),
    "unknown subcommand": Case("endpoint frobnicate", "usage", "No such command 'frobnicate'"),
    "unknown option": Case("status --frob", "usage", "--frob"),
    "option without value": Case("endpoint create --model", "usage", "--model", json=False),
    "missing argument": Case("endpoint info", "usage", "Missing argument"),
    "too many arguments": Case("version extra", "usage", "extra"),
    "no model": Case("endpoint create --name x", "usage", "Say --model"),
    "no number of replicas": Case(f"{_CREATE} --min-replicas two", "usage", "--min-replicas"),
    "negative replicas": Case(f"{_CREATE} --min-replicas -1", "invalid_spec", "scaling.min_replicas"),
    "no number of cores": Case(f"{_CREATE} --cpu abc", "usage", "--cpu"),
    "not a number of cores": Case(f"{_CREATE} --cpu nan", "invalid_spec", "resources.cpu"),
    "no cores": Case(f"{_CREATE} --cpu 0", "invalid_spec", "greater than 0"),
    "timeout of nothing": Case(f"{_CREATE} --timeout 0", "usage", "--timeout"),
    "negative timeout": Case("down --timeout -1", "usage", "--timeout"),
    "port 0": Case("up --port 0", "usage", "--port"),
    "port too large": Case("up --port 70000", "usage", "--port"),
    "port of letters": Case("up --port abc", "usage", "--port"),
    "negative API port": Case("up --api-port -1", "usage", "--api-port"),
    "flag without value": Case(f"{_CREATE} --set context", "usage", "--set name=value"),
    "flag without name": Case(f"{_CREATE} --set =3", "usage", "--set name=value"),
    "misspelt flag": Case(f"{_CREATE} --set contxt=512", "invalid_spec", "did you mean 'context'"),
    "flag of the wrong type": Case(f"{_CREATE} --set context=abc", "invalid_spec", "context"),
    "flag beyond sense": Case(f"{_CREATE} --set context=-5", "invalid_spec", "context"),
    "flag that is not finite": Case(f"{_CREATE} --set context=inf", "invalid_spec", "flags.context"),
    "name with capitals": Case("endpoint create --model a/b --name Bad_Name", "invalid_spec", "bad-name"),
    "name too long": Case(f"endpoint create --model a/b --name {'x' * 41}", "invalid_spec", "at most 40"),
    "name of other letters": Case("endpoint create --model a/b --name 模型", "invalid_spec", "DNS label"),
    "empty name": Case("endpoint create --model a/b --name ''", "invalid_spec", "DNS label"),
    "empty model": Case("endpoint create --model ''", "invalid_spec", "model"),
    "name with a path": Case("endpoint info ../../etc", "invalid_name", "Try 'etc'"),
    "unknown task": Case(f"{_CREATE} --task translate", "invalid_spec", "'generate' or 'embed'"),
    "unknown engine": Case(f"{_CREATE} --engine vlm", "invalid_spec", "did you mean 'vllm'"),
    "engine that needs a GPU": Case(
        f"{_CREATE} --engine sglang", "invalid_input", "of GPU memory, and this machine has none"
    ),
    "unknown drafter": Case(f"{_CREATE} --drafter ofd", "invalid_spec", "did you mean 'off'"),
    "bad GPU": Case(f"{_CREATE} --gpu H200:0", "invalid_spec", "H200:2"),
    "bad unit": Case(f"{_CREATE} --memory 2XB", "invalid_spec", "a size like 2GiB"),
    "memory that nothing fits in": Case(f"{_CREATE} --memory 1MB", "invalid_input", "than resources.memory allows"),
    "unknown recipe": Case(f"{_CREATE} --recipe nope", "recipe_not_found", "outrider recipe list"),
    "unknown model": Case("endpoint create --model acme/nothing", "unknown_model", "docs/guides/recipes.md"),
    "misspelt model": Case("endpoint plan --model HuggingFaceTB/SmolLM2-135M-Instrct", "unknown_model", MODEL),
    "weights of no scheme": Case(f"{_CREATE} --weights ftp:x", "invalid_spec", "hf:org/name"),
    "weights that are not there": Case(f"{_CREATE} --weights path:nope.gguf", "weights_unreadable", "no such file"),
    "model file that is not there": Case("endpoint plan --model path:/nope.gguf", "weights_unreadable", "/nope.gguf"),
    "weights of another family": Case(
        f"{_CREATE} --engine vllm --weights path:{{files}}/other-family", "weights_unfit", "architecture: qwen3"
    ),
    "weights of another format": Case(
        f"{_CREATE} --engine vllm --weights path:{{files}}/good.gguf", "weights_unfit", "reads safetensors"
    ),
    "adapter without a name": Case(f"{_CREATE} --adapter {{files}}/narrow-adapter", "usage", "--adapter name="),
    "adapter of a bad name": Case(
        f"{_CREATE} --adapter a:b={{files}}/narrow-adapter", "invalid_spec", "adapter's name"
    ),
    "adapter that is not there": Case(
        f"{_CREATE} --engine vllm --adapter a=/nope", "weights_unavailable", "Nothing lies at /nope"
    ),
    "adapter that is none": Case(
        f"{_CREATE} --engine vllm --adapter a={{files}}/folder", "weights_unreadable", "save_pretrained"
    ),
    "adapter of another model": Case(
        f"{_CREATE} --engine vllm --adapter a={{files}}/narrow-adapter",
        "adapter_unfit",
        "the base's width there is 576",
    ),
    "adapter on llama.cpp": Case(
        f"{_CREATE} --engine llamacpp --adapter a={{files}}/narrow-adapter", "adapter_unfit", "vLLM or SGLang"
    ),
    "drafter of another model": Case(
        f"{_CREATE} --engine vllm --drafter path:{{files}}/other-drafter", "drafter_unfit", "the target's have 576"
    ),
    "drafter on llama.cpp": Case(
        f"{_CREATE} --engine llamacpp --drafter path:{{files}}/one/small", "drafter_unfit", "outrider drafter export"
    ),
    "drafter of no known kind": Case(
        f"{_CREATE} --engine vllm --drafter hf:acme/nothing", "drafter_unfit", "outrider model pull hf:acme/nothing"
    ),
    "prediction heads that it lacks": Case(f"{_CREATE} --engine vllm --drafter mtp", "drafter_unfit", "ngram or off"),
    "spec that is not there": Case("endpoint create -f {files}/nope.yaml", "invalid_spec", "No such file"),
    "directory as spec": Case("endpoint plan -f {files}/folder", "invalid_spec", "holds no *.yaml"),
    "binary file as spec": Case("endpoint plan -f {files}/binary", "invalid_spec", "cannot be read"),
    "empty spec": Case("endpoint plan -f {files}/empty", "invalid_spec", "declares an endpoint"),
    "two specs": Case("endpoint create -f {files}/two.yaml", "usage", "holds 2 endpoints"),
    "endpoint there already": Case(f"endpoint create --model {MODEL} --name hello", "endpoint_exists", "endpoint rm"),
    "unknown endpoint": Case("endpoint info nope", "endpoint_not_found", "endpoint list"),
    "stop an unknown one": Case("endpoint stop nope", "endpoint_not_found", "endpoint list"),
    "start an unknown one": Case("endpoint start nope", "endpoint_not_found", "endpoint list"),
    "events of an unknown one": Case("endpoint events nope", "endpoint_not_found", "endpoint list"),
    "follow an unknown one": Case("endpoint events nope --follow", "endpoint_not_found", "endpoint list"),
    "remove an unknown one": Case("endpoint rm nope --purge", "endpoint_not_found", "endpoint list"),
    "remove without purge": Case("endpoint rm hello", "conflict", "--purge"),
    "nothing to roll back to": Case("endpoint rollback hello", "revision_not_found", "endpoint info hello"),
    "roll back to nowhere": Case("endpoint rollback hello --revision 99", "revision_not_found", "no revision 99"),
    "roll back too far": Case(f"endpoint rollback hello --revision {10**30}", "revision_not_found", "no revision"),
    "revision of letters": Case("endpoint rollback hello --revision abc", "usage", "--revision"),
    "negative revision": Case("endpoint rollback hello --revision -1", "revision_not_found", "no revision -1"),
    "unknown replica": Case(
        "endpoint logs hello --replica zzz", "replica_not_found", "endpoint info hello", json=False
    ),
    "no lines": Case("endpoint logs hello -n 0", "usage", "--tail", json=False),
    "recipe that is not there": Case("recipe show nope", "recipe_not_found", "outrider recipe list"),
    "misspelt recipe": Case("recipe show smollm2-135m-instruct/llamacp", "recipe_not_found", "Did you mean"),
    "look at no drafter": Case("drafter inspect {files}/nope", "usage", "Give its directory"),
    "drafter for another target": Case(
        "drafter inspect {files}/one/small --target smollm2-135m", "drafter_unfit", "states of 128 numbers"
    ),
    "export without a target": Case("drafter export {files}/one/small -o {files}/x.gguf", "usage", "--target"),
    "drafter not in the registry": Case(
        "drafter use nope --target hf:a/b", "drafter_not_found", "outrider drafter list"
    ),
    "forget an unknown drafter": Case("drafter rm nope", "drafter_not_found", "outrider drafter list"),
    "drafter for nobody": Case("drafter use small", "usage", "--endpoint NAME or --target"),
    "drafter for no endpoint": Case("drafter use small --endpoint nope", "endpoint_not_found", "endpoint list"),
    "other drafter of that name": Case(
        "drafter use {files}/two/small --target hf:a/b", "drafter_exists", "--name NAME"
    ),
    "what is no drafter": Case("drafter add {files}/folder", "weights_unreadable", "config.json"),
    "key there already": Case("key create app", "key_exists", "another name"),
    "key of an unknown scope": Case("key create x --scope root", "invalid_input", "'inference' or 'admin'"),
    "key without a name": Case("key create ''", "invalid_input", "body.name"),
    "key name of two lines": Case("key create 'a\nb'", "invalid_input", "body.name"),
    "key name too long": Case(f"key create {'k' * 81}", "invalid_input", "80"),
    "key for no endpoint name": Case("key create x --endpoint Bad_Name", "invalid_input", "bad-name"),
    "revoke an unknown key": Case("key revoke nope", "key_not_found", "outrider key list"),
    "revoke nothing": Case("key revoke ''", "invalid_input", "is no name"),
    "deploy nothing": Case("deploy {files}/nope.py", "invalid_source", "cannot be read"),
    "deploy a directory": Case("deploy {files}/folder", "invalid_source", "cannot be read"),
    "deploy a binary": Case("deploy {files}/binary", "invalid_source", "cannot be read"),
    "deploy an empty file": Case("deploy {files}/empty", "invalid_source", "declares 0 servers"),
    "apply nothing": Case("endpoint apply", "usage", "-f FILE"),
    "apply what is not there": Case("endpoint apply -f {files}/nope.yaml", "invalid_spec", "No such file"),
    "apply an empty directory": Case("endpoint apply -f {files}/folder", "invalid_spec", "holds no *.yaml"),
    "apply a binary": Case("endpoint apply -f {files}/binary", "invalid_spec", "cannot be read"),
    "apply unknown models": Case("endpoint apply -f {files}/two.yaml", "unknown_model", "two.yaml:1"),
    "compare unknown models": Case("endpoint diff -f {files}/two.yaml", "unknown_model", "also"),
    "follow the log of an unknown one": Case("endpoint logs nope --follow", "endpoint_not_found", "endpoint list"),
    "pull what nobody knows": Case("model pull acme/nothing", "unknown_model", "recipe list"),
    "pull a path that is not there": Case("model pull path:/nope.gguf", "weights_unavailable", "/nope.gguf"),
    "pull no reference": Case("model pull ftp:x", "unknown_model", "hf:org/name"),
    "remove weights that are not there": Case(f"model rm {'0' * 64} --yes", "not_found", "model list"),
    "verify weights that are not there": Case(f"model verify {'0' * 64}", "not_found", "model list"),
    "lint what is not there": Case("recipe lint {files}/nope.yaml", "usage", "nope.yaml"),
    "lint a binary": Case("recipe lint {files}/binary", "invalid_recipe", "1 error in 1 of 1 file"),
    "measure an unknown one": Case("bench nope", "endpoint_not_found", "endpoint list"),
    "measure nothing": Case("bench http://127.0.0.1:1", "unavailable", "does not answer"),
    "measure no URL": Case("bench ftp://x", "invalid_input", "http://host:8000/v1"),
    "measure a server of no models": Case("bench hello", "invalid_input", "task is custom"),
    "replay no trace": Case("bench hello --trace {files}/binary", "invalid_trace", "cannot be read"),
    "replay an empty trace": Case("bench hello --trace {files}/empty", "invalid_trace", "holds no request"),
    "plot into a text": Case("bench hello --plot {files}/plot.txt", "invalid_input", ".png"),
    "write into nowhere": Case("bench hello --output {files}/nope/r.json", "invalid_input", "cannot be written"),
    "tune an unknown one": Case("endpoint tune nope --workload chat", "endpoint_not_found", "endpoint list"),
    "tune with nothing": Case("endpoint tune planned", "usage", "--workload"),
    "tune for no duration": Case("endpoint tune planned --workload chat --budget soon", "usage", "15m"),
    "tune for no time": Case("endpoint tune planned --workload chat --budget 0s", "usage", "leaves no time"),
    "tune what cannot be varied": Case("endpoint tune planned --workload chat --vary luck", "usage", "batch_size"),
    "tune an edited file": Case("endpoint tune hello --workload chat", "source_edited", "--replace-source"),
    "tune with no workload": Case("endpoint tune planned --workload chatt", "invalid_workload", "agentic"),
    "tune with a list": Case("endpoint tune planned --workload {files}/list.yaml", "invalid_workload", "mapping"),
    "tune with no kinds": Case("endpoint tune planned --workload {files}/kinds.yaml", "invalid_workload", "kinds"),
    "tune with no trace": Case("endpoint tune planned --workload {files}/lost.yaml", "not_found", "nope.jsonl"),
    "tune with a bad trace": Case("endpoint tune planned --workload {files}/binary", "invalid_trace", "cannot be read"),
    "tune with no such method": Case("endpoint tune planned --workload chat --method magic", "invalid_input", "magic"),
    "tune with a drafter nobody names": Case(
        "endpoint tune planned --workload chat --method mtp", "no_drafter", "--method ngram"
    ),
    "tune into a file": Case(
        "endpoint tune planned --workload chat --output {files}/binary", "invalid_input", "binary"
    ),
    "tune within a moment": Case(
        "endpoint tune planned --workload chat --budget 100ms", "budget_too_small", "--budget"
    ),
    "a curve over rates": Case("bench hello --curve --rate 2", "usage", "--concurrency"),
    "complete an unknown shell": Case("completion tcsh", "usage", "tcsh", json=False),
    "examine port 0": Case("doctor --port 0", "usage", "--port"),
    "deploy under another name": Case("deploy {files}/serve.py --name other", "invalid_source", "App('hello')"),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_bad_command_line(case: Case, house: House) -> None:
    words = shlex.split(house.fill(case.words))
    shown = command(*words)
    check_refusal(Refusal.of_lines(shown.err, case.code, shown.code), case.code, case.says)
    if not case.json:
        return
    printed = command(*words, "--json")
    assert printed.err == ""
    check_refusal(Refusal.of_json(printed.out, printed.code), case.code, case.says)


@pytest.mark.parametrize("name", ["unknown command", "unknown endpoint"])
def test_a_process_of_its_own_says_and_exits_the_same(name: str, house: House) -> None:
    case = CASES[name]
    done = house.outrider.attempt(*shlex.split(case.words))
    assert done.stdout == ""
    check_refusal(Refusal.of_lines(done.stderr, case.code, done.returncode), case.code, case.says)
