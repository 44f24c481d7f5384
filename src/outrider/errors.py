"""Every error Outrider raises on purpose: one tree, each with a stable code.

An error says *what* failed, *why* (where known) and *what to do next*. The same three lines reach a person on the
command line, a program in RFC 9457 problem details, and an event in the store. Nothing else decides exit codes or HTTP
statuses: they are attributes of the class, and so is what to do where whoever raises it knows nothing better.

    OutriderError                  exit 1
    ├── InvalidInput               exit 2   the input is wrong; nothing was changed
    │   ├── InvalidSpec, InvalidName, InvalidSource, InvalidRecipe, InvalidReference, InvalidTrace,
    │   │   InvalidWorkload, InvalidDrafter, InvalidDataset, UsageError
    │   ├── MethodNotAllowed, TooLarge, ObjectiveUnreachable, BudgetTooSmall
    │   ├── WeightsUnfit, AdapterUnfit, DrafterUnfit
    ├── NotFound                   exit 3   the thing named does not exist
    │   ├── EndpointNotFound, RevisionNotFound, ReplicaNotFound, RecipeNotFound, KeyNotFound, UnknownModel,
    │   │   NoDrafter
    ├── Conflict                   exit 4   it exists already, or changed meanwhile
    │   ├── EndpointExists, KeyExists, SourceEdited, GenerationMismatch
    ├── AccessDenied               exit 5   no key, a wrong one, or one without the scope
    │   ├── Unauthorized, Forbidden, KeysRequired
    ├── Unavailable                exit 6   something that should answer does not
    │   ├── ControllerUnreachable
    ├── MachineFault               exit 7   this machine cannot do it now: port, disk, permission, missing package
    │   ├── PortTaken, CertificateUnusable, DiskFull, PermissionRefused, EngineMissing, EnvironmentFailed
    ├── WeightsFault               exit 8   weights could not be had, or are not what was promised
    │   ├── WeightsUnavailable, WeightsCorrupt, WeightsUnreadable
    └── ReplicaFault               exit 9   a replica did not come up, or died
        ├── ReplicaFailed, StartTimeout
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar


class OutriderError(Exception):
    """Base of every deliberate error.

    Attributes:
        code: stable snake_case word for programs.
        exit_code: what the command line exits with.
        status: HTTP status of the REST API.
        what: one line, what failed.
        why: one line of cause, or None where ``what`` says it.
        remedy: one line, what to do next; the class's ``usual_remedy`` unless a better one was given.
        details: further facts for programs (JSON-serialisable).

    Line breaks in them become spaces, since many quote a file or another program.
    """

    code: ClassVar[str] = "internal"
    exit_code: ClassVar[int] = 1
    status: ClassVar[int] = 500
    usual_remedy: ClassVar[str] = "Report it, with run/controller.log of OUTRIDER_HOME."

    def __init__(
        self,
        what: str,
        *,
        why: str | None = None,
        remedy: str | None = None,
        details: Mapping[str, Any] | None = None,
    ) -> None:
        self.what = _line(what)
        super().__init__(self.what)
        self.why = _line(why or "") or None
        self.remedy = _line(remedy or "") or self.usual_remedy
        self.details: dict[str, Any] = dict(details or {})

    def __str__(self) -> str:
        """All three parts on one line."""
        return f"{self.what}: {self.why}. {self.remedy}" if self.why else f"{self.what}. {self.remedy}"

    def problem(self) -> dict[str, Any]:
        """RFC 9457 problem details: ``type, title, status, detail, code, remedy`` and ``details``."""
        body: dict[str, Any] = {
            "type": f"urn:outrider:error:{self.code}",
            "title": self.what,
            "status": self.status,
            "code": self.code,
            "remedy": self.remedy,
        }
        if self.why:
            body["detail"] = self.why
        if self.details:
            body["details"] = self.details
        return body


def _line(text: str) -> str:
    return " ".join(part.strip() for part in text.splitlines() if part.strip())


class InvalidInput(OutriderError):
    """The input is wrong. Nothing was changed."""

    code = "invalid_input"
    exit_code = 2
    status = 422
    usual_remedy = "Correct it; nothing was changed."


class Problem(dict[str, Any]):
    """One bad field: ``field`` (dotted path), ``value``, ``allowed``, ``nearest`` (spelling) and ``message``."""


class InvalidSpec(InvalidInput):
    """A spec with bad fields; ``details["problems"]`` lists every one of them as :class:`Problem`."""

    code = "invalid_spec"
    usual_remedy = "Correct these fields; nothing was changed."

    def __init__(self, what: str, problems: Sequence[Problem], *, remedy: str | None = None) -> None:
        why = "; ".join(str(p.get("message", p)) for p in problems) or None
        super().__init__(what, why=why, remedy=remedy, details={"problems": [dict(p) for p in problems]})
        self.problems = list(problems)


class InvalidName(InvalidInput):
    """A name that is no DNS label of at most 40 characters (RFC 1123)."""

    code = "invalid_name"
    usual_remedy = "Use lower-case letters, digits and hyphens, at most 40 of them, such as support-chat."


class InvalidSource(InvalidInput):
    """A ``serve.py`` that raises, hangs on import, or declares no server."""

    code = "invalid_source"
    usual_remedy = "Correct serve.py and deploy it again; nothing was changed."


class InvalidRecipe(InvalidInput):
    """A recipe file that breaks the schema."""

    code = "invalid_recipe"
    usual_remedy = "Correct the file, or move it away; docs/guides/recipes.md has the schema."


class InvalidReference(InvalidInput):
    """A weights reference that is none of ``hf:``, ``path:``, ``package:``."""

    code = "invalid_reference"
    usual_remedy = "Write hf:org/name@revision#file, path:/file or package:name==version#file."


class InvalidTrace(InvalidInput):
    """A trace file that breaks the format; nothing was sent or simulated."""

    code = "invalid_trace"
    usual_remedy = "Correct the line that is named; docs/reference/trace.md has the format."


class InvalidWorkload(InvalidInput):
    """What ``endpoint tune`` is to measure with is no profile, trace or workload file."""

    code = "invalid_workload"
    usual_remedy = "Correct what is named; docs/guides/tuning.md has the format."


class InvalidDrafter(InvalidInput):
    """A drafter whose ``config.json`` or weights are not a DFlash, or do not fit its target."""

    code = "invalid_drafter"
    usual_remedy = "Correct what is named, or take another drafter; nothing was changed."


class InvalidDataset(InvalidInput):
    """Data that no drafter can be trained or measured on: says which row, and what is wrong with it."""

    code = "invalid_dataset"
    usual_remedy = "Correct or remove that row, or make the data again: outrider drafter data"


class UsageError(InvalidInput):
    """Command-line words that do not go together."""

    code = "usage"
    status = 400
    usual_remedy = "See: outrider --help"


class ObjectiveUnreachable(InvalidInput):
    """No configuration known here meets the objective; says what the best that can be had is (``details["best"]``)."""

    code = "objective_unreachable"
    usual_remedy = "Loosen the bound that is named, or give it other hardware with resources.gpu; nothing was changed."


class BudgetTooSmall(InvalidInput):
    """A tuner's budget ended before its first trial did, so that there is nothing to compare."""

    code = "budget_too_small"
    usual_remedy = "Give it more: --budget 30m"


class WeightsUnfit(InvalidInput):
    """Own weights that no recipe of the catalog model can serve; ``details["differences"]`` names what differs."""

    code = "weights_unfit"
    usual_remedy = "Name the weights as the model itself (--model path:…), or give weights of the same architecture."


class AdapterUnfit(InvalidInput):
    """A LoRA adapter that its base or its engine cannot serve; ``details["findings"]`` says why."""

    code = "adapter_unfit"
    usual_remedy = "Use a LoRA adapter that was trained on this model, saved by PEFT as safetensors."


class DrafterUnfit(InvalidInput):
    """A drafter that does not fit its target or its engine; ``details["findings"]`` has each with its source."""

    code = "drafter_unfit"
    usual_remedy = "Use a drafter made for this target, or leave drafter out."


class MethodNotAllowed(InvalidInput):
    """The REST API has the path, but not with this method."""

    code = "method_not_allowed"
    status = 405
    usual_remedy = "Use a method that the Allow header names."


class TooLarge(InvalidInput):
    """The body of a request to the REST API is larger than any it takes."""

    code = "too_large"
    status = 413
    usual_remedy = "Send less: a spec or a serve.py has some kilobytes."


class NotFound(OutriderError):
    """The thing named does not exist."""

    code = "not_found"
    exit_code = 3
    status = 404
    usual_remedy = "Check how it is written."


class EndpointNotFound(NotFound):
    """No endpoint of that name."""

    code = "endpoint_not_found"
    usual_remedy = "See them with: outrider endpoint list"


class RevisionNotFound(NotFound):
    """The endpoint has no revision of that number."""

    code = "revision_not_found"
    usual_remedy = "See them with: outrider endpoint info NAME"


class ReplicaNotFound(NotFound):
    """No replica of that id."""

    code = "replica_not_found"
    usual_remedy = "See them with: outrider endpoint info NAME"


class RecipeNotFound(NotFound):
    """No recipe of that id in the catalog."""

    code = "recipe_not_found"
    usual_remedy = "See them with: outrider recipe list"


class KeyNotFound(NotFound):
    """No key of that id or name."""

    code = "key_not_found"
    usual_remedy = "See them with: outrider key list"


class DrafterNotFound(NotFound):
    """The registry knows no drafter of that name."""

    code = "drafter_not_found"
    usual_remedy = "See them with: outrider drafter list"


class UnknownModel(NotFound):
    """No recipe names the model and no facts about it could be read; says which sources were tried."""

    code = "unknown_model"
    usual_remedy = "Name a model that a recipe is for (outrider recipe list), or a file: path:/FILE.gguf"


class NoDrafter(NotFound):
    """A method of speculation was asked for that needs a drafter, and nobody names one for the model."""

    code = "no_drafter"
    usual_remedy = "Put one into a recipe of your own under `drafters`, or try: --method ngram"


class Conflict(OutriderError):
    """It exists already, or changed meanwhile."""

    code = "conflict"
    exit_code = 4
    status = 409
    usual_remedy = "Look at what is there now, then try again."


class EndpointExists(Conflict):
    """Two endpoints of one name."""

    code = "endpoint_exists"
    usual_remedy = "Choose another name, or remove that one: outrider endpoint rm NAME --purge"


class KeyExists(Conflict):
    """Two live keys of one name."""

    code = "key_exists"
    usual_remedy = "Choose another name, or revoke that one: outrider key revoke NAME"


class DrafterExists(Conflict):
    """The name belongs to a drafter with other weights."""

    code = "drafter_exists"
    usual_remedy = "Give it another name."


class SourceEdited(Conflict):
    """The endpoint runs an edited ``serve.py``; a spec would overwrite it."""

    code = "source_edited"
    usual_remedy = "Deploy the file again, or give it up with --replace-source."


class GenerationMismatch(Conflict):
    """``If-Match`` names another generation: somebody changed the endpoint meanwhile."""

    code = "generation_mismatch"
    status = 412
    usual_remedy = "Read the endpoint again, and send the generation it has now."


class AccessDenied(OutriderError):
    """No key, a wrong one, or one without the scope."""

    code = "access_denied"
    exit_code = 5
    status = 403
    usual_remedy = "Use a key that may do this; make one with: outrider key create NAME"


class Unauthorized(AccessDenied):
    """No key, or one nobody knows."""

    code = "unauthorized"
    status = 401
    usual_remedy = "Send `Authorization: Bearer KEY`; make a key with: outrider key create NAME"


class Forbidden(AccessDenied):
    """A known key without the scope this needs."""

    code = "forbidden"
    usual_remedy = "Use a key with the scope that this needs; make one with: outrider key create NAME --scope SCOPE"


class KeysRequired(AccessDenied):
    """Listening beyond loopback is refused while no key exists."""

    code = "keys_required"
    usual_remedy = "Make a key first (outrider key create NAME), or listen on 127.0.0.1."


class Unavailable(OutriderError):
    """Something that should answer does not."""

    code = "unavailable"
    exit_code = 6
    status = 503
    usual_remedy = "Try again; see what is up with: outrider status"


class ControllerUnreachable(Unavailable):
    """The controller does not answer."""

    code = "controller_unreachable"
    usual_remedy = "Start it with: outrider up"


class MachineFault(OutriderError):
    """This machine cannot do it now: port, disk, permission, missing package."""

    code = "machine_fault"
    exit_code = 7
    status = 500
    usual_remedy = "Mend what is named, and try again."


class PortTaken(MachineFault):
    """Another process listens there."""

    code = "port_taken"
    usual_remedy = "Stop what listens there, or choose others: outrider up --port N --api-port M"


class CertificateUnusable(MachineFault):
    """A TLS certificate or its key cannot be read, or they do not belong together."""

    code = "certificate_unusable"
    usual_remedy = "Give a certificate and its own key as PEM files that this user may read."


class DiskFull(MachineFault):
    """Not enough free bytes."""

    code = "disk_full"
    status = 507
    usual_remedy = "Free some space, or set OUTRIDER_CACHE to another disk."


class PermissionRefused(MachineFault):
    """No right to write or connect there."""

    code = "permission_refused"
    usual_remedy = (
        "Run as the user it belongs to, or set OUTRIDER_HOME and OUTRIDER_CACHE to directories you may write."
    )


class EngineMissing(MachineFault):
    """The engine's package is not installed in its environment."""

    code = "engine_missing"
    usual_remedy = "Install the engine in its environment; for llama.cpp: pip install 'outrider[cpu]'"


class EnvironmentFailed(MachineFault):
    """An engine environment could not be built."""

    code = "environment_failed"
    usual_remedy = "Correct Environment(packages=…, patches=…) in serve.py."


class WeightsFault(OutriderError):
    """Weights could not be had, or are not what was promised."""

    code = "weights_fault"
    exit_code = 8
    status = 502
    usual_remedy = "Check the reference, or name another source."


class WeightsUnavailable(WeightsFault):
    """None of the sources gave the file; ``details["tried"]`` says what each answered."""

    code = "weights_unavailable"
    usual_remedy = "Check the reference, or name another source."


class WeightsCorrupt(WeightsFault):
    """Truncated, or the SHA-256 differs. The partial file was removed."""

    code = "weights_corrupt"
    usual_remedy = "Fetch them again, or correct the digest."


class WeightsUnreadable(WeightsFault):
    """Not a format that facts can be read from (``config.json``, GGUF)."""

    code = "weights_unreadable"
    status = 422
    usual_remedy = "Give a whole GGUF file, or a directory with config.json."


class ReplicaFault(OutriderError):
    """A replica did not come up, or died."""

    code = "replica_fault"
    exit_code = 9
    status = 502
    usual_remedy = "See its log: outrider endpoint logs NAME"


class ReplicaFailed(ReplicaFault):
    """The replica's process ended; ``details["log"]`` holds its last lines."""

    code = "replica_failed"
    usual_remedy = "See its log: outrider endpoint logs NAME"


class StartTimeout(ReplicaFault):
    """The replica was not ready within ``startup_timeout``."""

    code = "start_timeout"
    usual_remedy = "Listen on self.port, or raise startup_timeout in @app.server()."
