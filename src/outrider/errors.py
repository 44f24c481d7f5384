"""Every error Outrider raises on purpose: one tree, each with a stable code.

An error says *what* failed, *why* (where known) and *what to do next*. The same three lines reach a person on the
command line, a program in RFC 9457 problem details, and an event in the store. Nothing else decides exit codes or HTTP
statuses: they are attributes of the class.

    OutriderError                  exit 1
    ├── InvalidInput               exit 2   the input is wrong; nothing was changed
    │   ├── InvalidSpec, InvalidName, InvalidSource, InvalidRecipe, InvalidReference, InvalidTrace,
    │       UsageError
    ├── NotFound                   exit 3   the thing named does not exist
    │   ├── EndpointNotFound, RevisionNotFound, ReplicaNotFound, RecipeNotFound, KeyNotFound, UnknownModel
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
        why: one line of cause, or None.
        remedy: one line, what to do next, or None.
        details: further facts for programs (JSON-serialisable).
    """

    code: ClassVar[str] = "internal"
    exit_code: ClassVar[int] = 1
    status: ClassVar[int] = 500

    def __init__(
        self,
        what: str,
        *,
        why: str | None = None,
        remedy: str | None = None,
        details: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(what)
        self.what = what
        self.why = why
        self.remedy = remedy
        self.details: dict[str, Any] = dict(details or {})

    def __str__(self) -> str:
        """All three parts on one line."""
        parts = [self.what]
        if self.why:
            parts.append(self.why)
        text = ": ".join(parts)
        return f"{text}. {self.remedy}" if self.remedy else text

    def problem(self) -> dict[str, Any]:
        """RFC 9457 problem details: ``type, title, status, detail, code, remedy`` and ``details``."""
        body: dict[str, Any] = {
            "type": f"urn:outrider:error:{self.code}",
            "title": self.what,
            "status": self.status,
            "code": self.code,
        }
        if self.why:
            body["detail"] = self.why
        if self.remedy:
            body["remedy"] = self.remedy
        if self.details:
            body["details"] = self.details
        return body


class InvalidInput(OutriderError):
    """The input is wrong. Nothing was changed."""

    code = "invalid_input"
    exit_code = 2
    status = 422


class Problem(dict[str, Any]):
    """One bad field: ``field`` (dotted path), ``value``, ``allowed``, ``nearest`` (spelling) and ``message``."""


class InvalidSpec(InvalidInput):
    """A spec with bad fields; ``details["problems"]`` lists every one of them as :class:`Problem`."""

    code = "invalid_spec"

    def __init__(self, what: str, problems: Sequence[Problem], *, remedy: str | None = None) -> None:
        why = "; ".join(str(p.get("message", p)) for p in problems) or None
        super().__init__(what, why=why, remedy=remedy, details={"problems": [dict(p) for p in problems]})
        self.problems = list(problems)


class InvalidName(InvalidInput):
    """A name that is no DNS label of at most 40 characters (RFC 1123)."""

    code = "invalid_name"


class InvalidSource(InvalidInput):
    """A ``serve.py`` that raises, hangs on import, or declares no server."""

    code = "invalid_source"


class InvalidRecipe(InvalidInput):
    """A recipe file that breaks the schema."""

    code = "invalid_recipe"


class InvalidReference(InvalidInput):
    """A weights reference that is none of ``hf:``, ``path:``, ``package:``."""

    code = "invalid_reference"


class InvalidTrace(InvalidInput):
    """A trace file that breaks the format; nothing was simulated."""

    code = "invalid_trace"


class UsageError(InvalidInput):
    """Command-line words that do not go together."""

    code = "usage"
    status = 400


class NotFound(OutriderError):
    """The thing named does not exist."""

    code = "not_found"
    exit_code = 3
    status = 404


class EndpointNotFound(NotFound):
    """No endpoint of that name."""

    code = "endpoint_not_found"


class RevisionNotFound(NotFound):
    """The endpoint has no revision of that number."""

    code = "revision_not_found"


class ReplicaNotFound(NotFound):
    """No replica of that id."""

    code = "replica_not_found"


class RecipeNotFound(NotFound):
    """No recipe of that id in the catalog."""

    code = "recipe_not_found"


class KeyNotFound(NotFound):
    """No key of that id or name."""

    code = "key_not_found"


class UnknownModel(NotFound):
    """No recipe names the model and no facts about it could be read; says which sources were tried."""

    code = "unknown_model"


class Conflict(OutriderError):
    """It exists already, or changed meanwhile."""

    code = "conflict"
    exit_code = 4
    status = 409


class EndpointExists(Conflict):
    """Two endpoints of one name."""

    code = "endpoint_exists"


class KeyExists(Conflict):
    """Two live keys of one name."""

    code = "key_exists"


class SourceEdited(Conflict):
    """The endpoint runs an edited ``serve.py``; a spec would overwrite it."""

    code = "source_edited"


class GenerationMismatch(Conflict):
    """``If-Match`` names another generation: somebody changed the endpoint meanwhile."""

    code = "generation_mismatch"
    status = 412


class AccessDenied(OutriderError):
    """No key, a wrong one, or one without the scope."""

    code = "access_denied"
    exit_code = 5
    status = 403


class Unauthorized(AccessDenied):
    """No key, or one nobody knows."""

    code = "unauthorized"
    status = 401


class Forbidden(AccessDenied):
    """A known key without the scope this needs."""

    code = "forbidden"


class KeysRequired(AccessDenied):
    """Listening beyond loopback is refused while no key exists."""

    code = "keys_required"


class Unavailable(OutriderError):
    """Something that should answer does not."""

    code = "unavailable"
    exit_code = 6
    status = 503


class ControllerUnreachable(Unavailable):
    """The controller does not answer."""

    code = "controller_unreachable"


class MachineFault(OutriderError):
    """This machine cannot do it now: port, disk, permission, missing package."""

    code = "machine_fault"
    exit_code = 7
    status = 500


class PortTaken(MachineFault):
    """Another process listens there."""

    code = "port_taken"


class CertificateUnusable(MachineFault):
    """A TLS certificate or its key cannot be read, or they do not belong together."""

    code = "certificate_unusable"


class DiskFull(MachineFault):
    """Not enough free bytes."""

    code = "disk_full"
    status = 507


class PermissionRefused(MachineFault):
    """No right to write or connect there."""

    code = "permission_refused"


class EngineMissing(MachineFault):
    """The engine's package is not installed in its environment."""

    code = "engine_missing"


class EnvironmentFailed(MachineFault):
    """An engine environment could not be built."""

    code = "environment_failed"


class WeightsFault(OutriderError):
    """Weights could not be had, or are not what was promised."""

    code = "weights_fault"
    exit_code = 8
    status = 502


class WeightsUnavailable(WeightsFault):
    """None of the sources gave the file; ``details["tried"]`` says what each answered."""

    code = "weights_unavailable"


class WeightsCorrupt(WeightsFault):
    """Truncated, or the SHA-256 differs. The partial file was removed."""

    code = "weights_corrupt"


class WeightsUnreadable(WeightsFault):
    """Not a format that facts can be read from (``config.json``, GGUF)."""

    code = "weights_unreadable"
    status = 422


class ReplicaFault(OutriderError):
    """A replica did not come up, or died."""

    code = "replica_fault"
    exit_code = 9
    status = 502


class ReplicaFailed(ReplicaFault):
    """The replica's process ended; ``details["log"]`` holds its last lines."""

    code = "replica_failed"


class StartTimeout(ReplicaFault):
    """The replica was not ready within ``startup_timeout``."""

    code = "start_timeout"
