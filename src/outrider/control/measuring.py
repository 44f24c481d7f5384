"""What the controller measures of its replicas: it has their engines read, and hears of requests from gateways."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from outrider.control.link import GatewayLink
from outrider.control.members import Member
from outrider.engines.normalise import EngineMetrics
from outrider.errors import OutriderError
from outrider.store.revisions import Revisions
from outrider.telemetry.recent import Recent, Standing
from outrider.telemetry.scrape import Scraper, Target


class Measuring:
    """In the event loop only. Nothing is stored: a controller that starts knows of nothing that was before.

    Args:
        members: the replicas known now.
        revisions: say which engine a replica runs.
        now: UTC ms.
    """

    def __init__(self, members: Callable[[], list[Member]], revisions: Revisions, now: Callable[[], int]) -> None:
        self._members = members
        self._revisions = revisions
        self._now = now
        self._recent = Recent(now())
        self._engines: dict[str, str] = {}

    async def run(self) -> None:
        """Read the engines, until it is cancelled."""
        await Scraper(self._targets, self._read).run()

    def take(self, records: Iterable[Mapping[str, Any]]) -> None:
        """Count finished requests."""
        self._recent.take(records, self._now())

    def stats(self, endpoint: str, link: GatewayLink) -> dict[str, Any]:
        """What happened at an endpoint within the last minute, as the API shows it."""
        standing = [
            Standing(
                id=member.id,
                revision=member.replica.spec.revision,
                stage=member.stage.value,
                ready=member.url() is not None,
                in_flight=link.in_flight(member.id),
            )
            for member in self._members()
            if member.endpoint == endpoint
        ]
        return self._recent.stats(
            endpoint, standing, held=link.held(endpoint), connected=bool(link.gateways()), now=self._now()
        )

    def _read(self, replica: str, page: EngineMetrics) -> None:
        self._recent.read(replica, page, self._now())

    async def _targets(self) -> list[Target]:
        members = self._members()
        ids = {member.id for member in members}
        self._recent.forget(ids, self._now())
        self._engines = {replica: engine for replica, engine in self._engines.items() if replica in ids}
        targets = []
        for member in members:
            state = member.observation.state
            if state is None or state.metrics_url is None or member.url() is None:
                continue
            if member.id not in self._engines:
                self._engines[member.id] = await asyncio.to_thread(self._engine, member)
            spec = member.replica.spec
            targets.append(Target(member.id, self._engines[member.id], state.metrics_url, spec.key))
        return targets

    def _engine(self, member: Member) -> str:
        spec = member.replica.spec
        try:
            declaration = self._revisions.get(spec.endpoint, spec.revision).declaration
        except OutriderError:
            return ""  # purged meanwhile
        return str((declaration.get("engine") or {}).get("name") or "")
