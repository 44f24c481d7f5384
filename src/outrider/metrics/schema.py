"""Every ``outrider_*`` metric: name, unit, kind, labels, help.

Names follow Prometheus: base units (seconds, bytes), ``_total`` on counters. A number that is not listed here is not
published; a test compares ``/metrics`` with this module.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Kind(StrEnum):
    """What a metric may do: only rise, move freely, or count observations by size."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


class Unit(StrEnum):
    """What one step of a metric is."""

    SECONDS = "seconds"
    TOKENS = "tokens"
    REQUESTS = "requests"
    CONNECTIONS = "connections"
    RECORDS = "records"
    BOOLEAN = "boolean"
    VERSION = "version"


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric.

    Attributes:
        name: full name, with prefix and suffix.
        unit: what one step of it is.
        kind: counter, gauge or histogram.
        labels: label names, in the order in which values are given.
        help: one line for people.
    """

    name: str
    unit: Unit
    kind: Kind
    labels: tuple[str, ...]
    help: str


_WHERE = ("endpoint", "revision", "replica")

REQUESTS = Metric(
    "outrider_gateway_requests_total",
    Unit.REQUESTS,
    Kind.COUNTER,
    (*_WHERE, "status", "outcome"),
    "Requests answered, by HTTP status and how they ended.",
)
RETRIES = Metric(
    "outrider_gateway_retries_total",
    Unit.REQUESTS,
    Kind.COUNTER,
    ("endpoint",),
    "Requests sent to another replica because one failed before its first byte.",
)
PROMPT_TOKENS = Metric(
    "outrider_prompt_tokens_total", Unit.TOKENS, Kind.COUNTER, _WHERE, "Prompt tokens, as counted by the engine."
)
COMPLETION_TOKENS = Metric(
    "outrider_completion_tokens_total",
    Unit.TOKENS,
    Kind.COUNTER,
    _WHERE,
    "Completion tokens, as counted by the engine.",
)
TTFT = Metric(
    "outrider_request_ttft_seconds",
    Unit.SECONDS,
    Kind.HISTOGRAM,
    _WHERE,
    "Request complete to first content event, streams only.",
)
ITL = Metric(
    "outrider_request_itl_seconds",
    Unit.SECONDS,
    Kind.HISTOGRAM,
    _WHERE,
    "First to last content event, divided by completion tokens - 1; one value a request.",
)
E2E = Metric(
    "outrider_request_e2e_seconds",
    Unit.SECONDS,
    Kind.HISTOGRAM,
    _WHERE,
    "Request complete to last byte of the answer.",
)
OVERHEAD = Metric(
    "outrider_gateway_overhead_seconds",
    Unit.SECONDS,
    Kind.HISTOGRAM,
    _WHERE,
    "Time a request spent inside the gateway: until written to the replica, and from the replica's first byte until "
    "written to the client. Waiting for a replica is not part of it.",
)
IN_FLIGHT = Metric(
    "outrider_gateway_in_flight", Unit.REQUESTS, Kind.GAUGE, ("endpoint", "replica"), "Requests a replica is serving."
)
WAITING = Metric(
    "outrider_gateway_waiting",
    Unit.REQUESTS,
    Kind.GAUGE,
    ("endpoint",),
    "Requests held until a replica can serve them.",
)
CONNECTIONS = Metric(
    "outrider_gateway_connections", Unit.CONNECTIONS, Kind.GAUGE, (), "Client connections that are open."
)
CONTROLLER_CONNECTED = Metric(
    "outrider_gateway_controller_connected", Unit.BOOLEAN, Kind.GAUGE, (), "1 while the controller answers."
)
TABLE_VERSION = Metric(
    "outrider_gateway_table_version", Unit.VERSION, Kind.GAUGE, (), "Version of the routing table in use."
)
RECORDS_LOST = Metric(
    "outrider_gateway_records_lost_total",
    Unit.RECORDS,
    Kind.COUNTER,
    (),
    "Request records dropped because the controller was away for too long.",
)

METRICS: tuple[Metric, ...] = (
    REQUESTS,
    RETRIES,
    PROMPT_TOKENS,
    COMPLETION_TOKENS,
    TTFT,
    ITL,
    E2E,
    OVERHEAD,
    IN_FLIGHT,
    WAITING,
    CONNECTIONS,
    CONTROLLER_CONNECTED,
    TABLE_VERSION,
    RECORDS_LOST,
)
"""All of them, in the order in which they are shown."""
