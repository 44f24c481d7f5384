"""Trials for real: a replica of the tuner's own, started as any other, under load, and ended whatever happens."""

from __future__ import annotations

import asyncio
import fcntl
import os
import secrets
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import httpx
import uvloop

from outrider._version import __version__
from outrider.app.server import Stage
from outrider.errors import Conflict, OutriderError
from outrider.loadgen.client import LoadClient
from outrider.loadgen.load import Load, Round, drive
from outrider.loadgen.measurement import Measurement
from outrider.loadgen.target import Target
from outrider.placement.base import Observation, Placement, Replica, ReplicaSpec
from outrider.placement.local import LocalPlacement
from outrider.placement.process import ProcessIdentity, wait_gone
from outrider.recipes.plan import Plan
from outrider.recipes.render import render
from outrider.spec.home import Home
from outrider.telemetry.scrape import Target as Page
from outrider.telemetry.scrape import scrape
from outrider.tuning.settings import Setting, changed_plan
from outrider.tuning.trial import Loaded, Outcome, Sample

Tell = Callable[[str], None]
"""Told what a trial is doing, in some words."""

_POLL = 0.05
"""Seconds between two looks at a replica that starts."""
_GRACE = 10.0
"""Seconds for a replica to end by itself; nothing is in flight then."""
_FIRST = 1_000_000
"""Number of a load's first request is this times its place, so that no prompt comes twice in a trial."""


@dataclass(frozen=True, slots=True)
class _Running:
    """A ready replica: its engine, its metrics page (None: it has none), and its key."""

    url: str
    metrics: str | None
    key: str
    start_seconds: float


class _LostError(Exception):
    """The setting loses, for the reason that is the message."""


class _OverError(Exception):
    """The trial's time is over."""


@contextmanager
def workplace(home: Home) -> Iterator[Home]:
    """A home inside the user's for the tuner's replicas, for one tuner at a time; what an earlier one left is ended.

    Raises:
        Conflict: another tuner is at work. PermissionRefused.
    """
    home.create()
    lock = os.open(home.root, os.O_RDONLY)  # the directory itself, so that no file is left
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            remedy = "Wait for it: they would measure each other."
            raise Conflict("Another tuner is at work here", remedy=remedy) from error
        own = Home.from_environment({**os.environ, "OUTRIDER_HOME": str(home.root / "tuning")})
        own.create()
        try:
            _clear(own)
            yield own
        finally:
            _clear(own)
            shutil.rmtree(own.root, ignore_errors=True)
            shutil.rmtree(own.sockets, ignore_errors=True)
    finally:
        os.close(lock)


def _clear(own: Home) -> None:
    placement = LocalPlacement(own)
    for replica in placement.adopt():
        placement.kill(replica)
        placement.remove(replica)


class ReplicaBench:
    """Implements :class:`~outrider.tuning.trial.Bench` with replicas of this machine.

    Args:
        plan: of the endpoint; a setting changes it.
        home: of the tuner's own replicas.
        seed: of prompts.
        tell: told what is being done.
    """

    def __init__(self, plan: Plan, home: Home, *, seed: int, tell: Tell) -> None:
        # A fixed port may be the endpoint's own, which perhaps runs.
        self._plan = plan.model_copy(update={"server": plan.server.model_copy(update={"port": None})})
        self._home = home
        self._placement: Placement = LocalPlacement(home)
        self._seed = seed
        self._tell = tell
        self._number = 0

    def run(self, setting: Setting, loads: Sequence[Load], limit: float) -> Outcome:
        """See :class:`Bench`. Interrupted, the replica is ended before the interrupt goes on."""
        deadline = time.monotonic() + limit
        done: list[Loaded] = []
        ready: list[float] = []
        failure, cut = None, False
        try:
            with self._replica(setting, deadline) as running:
                ready.append(running.start_seconds)
                with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
                    runner.run(self._measure(running, loads, deadline, done))
        except _LostError as lost:
            failure = str(lost)
        except OutriderError as error:
            failure = f"{error.what}: {error.why}" if error.why else error.what
        except (_OverError, TimeoutError):
            cut = True
        return Outcome(tuple(done), failure, cut, round(ready[0], 3) if ready else None)

    @contextmanager
    def _replica(self, setting: Setting, deadline: float) -> Iterator[_Running]:
        self._number += 1
        plan = changed_plan(self._plan, setting)
        source = self._home.revisions / plan.endpoint / str(self._number) / "serve.py"
        source.parent.mkdir(parents=True)
        source.write_text(render(plan, version=__version__), encoding="utf-8")
        key = secrets.token_urlsafe(24)
        spec = ReplicaSpec(secrets.token_hex(6), plan.endpoint, self._number, source, key, plan.server.cpu,
                           int(time.time() * 1000))  # fmt: skip
        began = time.monotonic()
        replica = self._placement.start(spec)
        calm = False
        try:
            yield self._await_ready(replica, began, deadline)
            calm = True
        finally:
            self._end(replica, calm=calm)

    def _await_ready(self, replica: Replica, began: float, deadline: float) -> _Running:
        told = ""
        while True:
            seen = self._placement.observe(replica)
            if not seen.alive:
                raise _LostError(_reason(seen))
            state = seen.state
            if state is not None:
                if state.stage is Stage.READY and state.engine_url:
                    return _Running(state.engine_url, state.metrics_url, replica.spec.key, time.monotonic() - began)
                words = state.detail or state.stage.value
                if words != told:
                    self._tell(words)
                    told = words
            if time.monotonic() > deadline:
                raise _OverError
            time.sleep(_POLL)

    def _end(self, replica: Replica, *, calm: bool) -> None:
        """End a replica: by asking where nothing is in flight, else by force, since nobody waits for those requests."""
        self._tell("ending the replica")
        if calm:
            self._placement.drain(replica)
        if not calm or not wait_gone(ProcessIdentity(replica.pid, replica.started), _GRACE):
            self._placement.kill(replica)
        self._placement.remove(replica)

    async def _measure(self, running: _Running, loads: Sequence[Load], deadline: float, done: list[Loaded]) -> None:
        target = Target(f"{running.url}/v1", self._plan.endpoint, running.key, label="the replica")
        left = max(0.0, deadline - time.monotonic())
        made_up = any(arrival.messages is None for load in loads for arrival in load.arrivals)
        # Answers to real messages end by themselves: what comes after their end no drafter was trained on.
        client = LoadClient(target, salt=str(self._seed), timeout=left + 1, ignore_eos=made_up)
        try:
            async with asyncio.timeout(left), httpx.AsyncClient(timeout=10.0, trust_env=False) as pages:
                if made_up:
                    self._tell("counting the tokens of a word")
                    await client.calibrate()
                for place, load in enumerate(loads):
                    self._tell(f"{load.label}: {len(load.arrivals)} requests")
                    done.append(await self._load(client, pages, running, load, place))
        finally:
            await client.close()

    async def _load(
        self, client: LoadClient, pages: httpx.AsyncClient, running: _Running, load: Load, place: int
    ) -> Loaded:
        page = Page("", self._plan.engine, running.metrics or "", running.key)
        before = await scrape(pages, page)
        [one] = await _driven(client, load, first=place * _FIRST)
        after = await scrape(pages, page)
        tau = after.since(before) if before is not None and after is not None else None
        return loaded(load, one, first=place * _FIRST, acceptance_length=tau)


async def _driven(client: LoadClient, load: Load, *, first: int) -> list[Round]:
    """Drive a load; the first failed request ends it. Raises _LostError."""
    failed: list[Measurement] = []

    def tell(measurement: Measurement) -> None:
        if not measurement.ok:
            failed.append(measurement)
            task.cancel()

    task = asyncio.ensure_future(drive([client], load, rounds=1, tell=tell, first=first))
    try:
        return await task
    except asyncio.CancelledError:
        if not failed:
            raise
        lost = failed[0]
        raise _LostError(f"a request of {load.label} failed: {lost.error}") from None


def loaded(load: Load, one: Round, *, first: int, acceptance_length: float | None) -> Loaded:
    """A load's round as the tuner keeps it."""
    good = [request for request in one.measurements if request.ok]
    output = sum(request.completion_tokens for request in good)
    prompt = sum(request.prompt_tokens or 0 for request in good)
    samples = tuple(
        Sample(r.number - first, r.ttft or 0.0, r.itl, r.e2e or 0.0, r.completion_tokens)
        for r in sorted(good, key=lambda request: request.number)
    )
    rates: dict[str, Any] = {
        "output_tps": output / one.seconds if one.seconds else 0.0,
        "total_tps": (output + prompt) / one.seconds if one.seconds else 0.0,
    }
    return Loaded(load.label, load.concurrency, load.rate, one.seconds, samples, acceptance_length, **rates)


def _reason(seen: Observation) -> str:
    """Why a replica ended, on one line."""
    error = (seen.exit or {}).get("error") or {}
    if error.get("title"):
        return ": ".join(str(part) for part in (error["title"], error.get("detail")) if part)
    reason = str((seen.exit or {}).get("reason") or "its replica was killed")
    last = next((line.strip() for line in reversed(seen.log) if line.strip()), "")
    return f"{reason}: {last}" if last else reason
