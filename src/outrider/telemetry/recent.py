"""Everything that is known of the last minute, in memory: requests and pages by endpoint and replica. Time comes in."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from outrider.engines.normalise import EngineMetrics
from outrider.telemetry.pages import Pages
from outrider.telemetry.stats import EngineStats, GatewayStats
from outrider.telemetry.window import WINDOW, Tally, Window, covered, ended


@dataclass(frozen=True, slots=True)
class Standing:
    """A replica as it stands. ``in_flight``: requests that the gateways have on it; ``ready``: whether it serves."""

    id: str
    revision: int
    stage: str
    ready: bool
    in_flight: int


class Recent:
    """Not thread-safe.

    Args:
        begun: since when it is told of everything, UTC ms. What ended before is left out: it would not be all.
    """

    def __init__(self, begun: int) -> None:
        self._begun = begun
        self._windows: dict[tuple[str, str], Window] = {}
        self._pages: dict[str, Pages] = {}

    def take(self, records: Iterable[Mapping[str, Any]], now: int) -> None:
        """Count finished requests, as gateways report them."""
        for record in records:
            if ended(record) >= self._begun:
                where = record["endpoint"], record["replica"] or ""
                if where not in self._windows:
                    self._windows[where] = Window()
                self._windows[where].add(record, now)

    def read(self, replica: str, page: EngineMetrics, now: int) -> None:
        """Keep what a replica's engine says."""
        self._pages.setdefault(replica, Pages()).add(page, now)

    def forget(self, replicas: Iterable[str], now: int) -> None:
        """Let go of what is over: pages of replicas other than these, and windows in which nothing finished."""
        for gone in self._pages.keys() - set(replicas):
            del self._pages[gone]
        for where in [where for where, window in self._windows.items() if window.empty(now)]:
            del self._windows[where]

    def stats(
        self, endpoint: str, replicas: Iterable[Standing], *, held: int, connected: bool, now: int
    ) -> dict[str, Any]:
        """One endpoint as the API shows it.

        Args:
            replicas: those it has now. What others answered within the window is in the endpoint's numbers alone.
            held: requests that gateways hold until a replica has room.
            connected: whether a gateway tells; what only gateways know is None otherwise.
            now: UTC ms.
        """
        present = list(replicas)
        tallies = {where[1]: window.sum(now) for where, window in self._windows.items() if where[0] == endpoint}
        every = Tally()
        for tally in tallies.values():
            every.merge(tally)
        seconds = covered(self._begun, now)

        def gateway(tally: Tally, in_flight: int) -> dict[str, Any] | None:
            return asdict(GatewayStats.of(tally, seconds=seconds, in_flight=in_flight)) if connected else None

        return {
            "name": endpoint,
            "at": now,
            "window": WINDOW,
            "covered": seconds,
            "held": held if connected else None,
            "gateway": gateway(every, sum(replica.in_flight for replica in present)),
            "engine": self._engine([replica for replica in present if replica.ready], now),
            "replicas": [
                {
                    "id": replica.id,
                    "revision": replica.revision,
                    "stage": replica.stage,
                    "gateway": gateway(tallies.get(replica.id, Tally()), replica.in_flight),
                    "engine": self._engine([replica], now),
                }
                for replica in present
            ],
        }

    def _engine(self, replicas: list[Standing], now: int) -> dict[str, Any] | None:
        pages = [self._pages.get(replica.id, Pages()) for replica in replicas]
        latest = [page.latest(now) for page in pages]
        if not any(latest):
            return None
        return asdict(EngineStats.of(latest, [page.rise(now) for page in pages]))
