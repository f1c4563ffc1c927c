"""How hooks are called: one implementation at a time, each within its bounds, and none that can do harm by raising.

Where several plugins implement a hook, pluggy's order holds: `tryfirst`, then from the plugin that was loaded last to
the first, then `trylast`. A sync implementation of a hook that may be async runs in a worker thread.
"""

from __future__ import annotations

import asyncio
import inspect
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from contextvars import copy_context
from functools import partial
from typing import TYPE_CHECKING, Any

import orjson
import pluggy

from a2ad import hookspecs
from a2ad.figures import Tally
from a2ad.hookspecs import Decision, Deny, Event, OutboundCall
from a2ad.model import as_unicode, now_ms, timestamp
from a2ad.plugins.observers import Observer

if TYPE_CHECKING:
    import click

HOOKS = tuple(name for name in vars(hookspecs) if name.startswith("a2ad_"))

#: worker threads that one implementation may occupy at a time: one that hangs must not gather them without end
THREADS = 32


class Hooks:
    """The hooks of the plugins that are loaded. `gate_seconds` bounds what may be async; `log` hears of failures."""

    def __init__(self, gate_seconds: float, log: Any) -> None:
        self._gate_seconds = gate_seconds
        self._log = log
        #: how often what a plugin brings failed, by the plugin's name
        self.errors = Tally()
        self._slots: dict[pluggy.HookImpl, asyncio.Semaphore] = defaultdict(partial(asyncio.Semaphore, THREADS))
        self._running: set[asyncio.Task[Any]] = set()
        self._set_implementations({}, {})

    def _set_implementations(
        self, implementations: Mapping[str, Sequence[pluggy.HookImpl]], names: Mapping[str, str]
    ) -> None:
        # `names`: pluggy's name of a plugin → the name that people know
        self._impls = {hook: tuple(implementations.get(hook, ())) for hook in HOOKS}
        self._names = names
        self._observers = [
            Observer(names[impl.plugin_name], partial(self._observe, impl), self._log)
            for impl in self._impls["a2ad_event"]
        ]
        #: whether a plugin decides about inbound tasks
        self.has_gates = bool(self._impls["a2ad_inbound_task"])
        #: whether a plugin decides about outbound calls
        self.has_outbound_gates = bool(self._impls["a2ad_outbound_call"])
        #: whether a plugin listens to events
        self.has_observers = bool(self._impls["a2ad_event"])

    def emit(self, name: str, data: Mapping[str, Any]) -> None:
        """Tell the observers that something happened just now."""
        if not self.has_observers:
            return
        event = Event(name, timestamp(now_ms()), data)
        for observer in self._observers:
            observer.put(event)

    def drain(self, seconds: float) -> bool:
        """Wait until the observers have heard of everything, in all so long at most. False: one has not."""
        until = time.monotonic() + seconds
        drained = [observer.drain(until) for observer in self._observers]
        return all(drained)

    def _observe(self, impl: pluggy.HookImpl, event: Event) -> None:
        with self._logged(impl, "a2ad_event"):
            self._call_sync(impl, {"event": event})

    async def agent_card(self, card: dict[str, Any], inbound: object) -> dict[str, Any]:
        """The card as the plugins want it. `card` itself stays as it is.

        What a plugin did is left out where it raised, took longer than `limits.gate_seconds`, or left something that is
        not JSON.
        """
        for impl in self._impls["a2ad_agent_card"]:
            task = await self._bounded(self._changed_card(impl, card, inbound))
            if task.done() and not task.cancelled():
                card = task.result()
            else:
                self._failed("plugin hook takes too long", self._names[impl.plugin_name], hook="a2ad_agent_card")
        return card

    async def _changed_card(self, impl: pluggy.HookImpl, card: dict[str, Any], inbound: object) -> dict[str, Any]:
        def change() -> dict[str, Any]:
            # A copy goes in and a copy comes out: a plugin may keep the draft and change it later.
            draft = orjson.loads(orjson.dumps(card))
            self._call_sync(impl, {"card": draft, "inbound": inbound})
            changed: dict[str, Any] = orjson.loads(orjson.dumps(draft))
            return changed

        with self._logged(impl, "a2ad_agent_card"):
            card = await _in_thread(change, self._slots[impl])
        return card  # where something was raised, it is as it was

    def register_commands(self, cli: click.Group) -> None:
        """Let the plugins add commands. One that fails, or replaces a command, adds none."""
        for impl in self._impls["a2ad_register_commands"]:
            before = dict(cli.commands)
            added = False
            with self._logged(impl, "a2ad_register_commands"):
                self._call_sync(impl, {"cli": cli})
                if replaced := [name for name in before if cli.commands.get(name) is not before[name]]:
                    raise ValueError(f"there is a command {', '.join(replaced)} already")
                added = True
            if not added:
                cli.commands = before

    def _call_sync(self, impl: pluggy.HookImpl, arguments: Mapping[str, Any]) -> None:
        result = invoke(impl, arguments)
        if inspect.isawaitable(result):
            discard(result)
            raise TypeError("this hook must not be async")

    @contextmanager
    def _logged(self, impl: pluggy.HookImpl, hook: str) -> Iterator[None]:
        try:
            yield
        except asyncio.CancelledError as error:
            task = _current_task()
            if task is not None and task.cancelling():
                raise  # the daemon's own doing
            self._failed("plugin hook failed", self._names[impl.plugin_name], hook=hook, error=type(error).__name__)
        except BaseException as error:  # noqa: BLE001 - a plugin may fail in any way, sys.exit() included
            self._failed("plugin hook failed", self._names[impl.plugin_name], hook=hook, exc_info=error)

    def _failed(self, event: str, plugin: str, **told: Any) -> None:
        self.errors.add(plugin)
        self._log.error(event, plugin=plugin, **told)

    async def inbound_task(self, decision: Decision) -> Deny | None:
        """Ask every policy hook in turn; the first denial, or None.

        A hook that raises, answers something else or takes longer than `limits.gate_seconds` denies.
        """
        return await self._decide("a2ad_inbound_task", {"decision": decision})

    async def outbound_call(self, call: OutboundCall) -> Deny | None:
        """As `inbound_task`, for a tool call that is about to leave."""
        return await self._decide("a2ad_outbound_call", {"call": call})

    async def _decide(self, hook: str, arguments: Mapping[str, Any]) -> Deny | None:
        denial = None
        for impl in self._impls[hook]:
            name = self._names[impl.plugin_name]
            task = await self._bounded(self._verdict(impl, hook, arguments))
            if not task.done():
                self._failed("policy plugin did not decide in time", name, hook=hook)
                verdict: Deny | None = Deny(f"policy plugin {name} did not decide in time")
            elif task.cancelled():  # by itself: it was not asked to
                self._failed("plugin hook failed", name, hook=hook, error="it cancelled itself")
                verdict = _denial(name)
            else:
                verdict = task.result()
            denial = denial or verdict
        return denial

    async def _verdict(self, impl: pluggy.HookImpl, hook: str, arguments: Mapping[str, Any]) -> Deny | None:
        verdict: Deny | None = _denial(self._names[impl.plugin_name])
        with self._logged(impl, hook):
            answer = await self._call_async(impl, arguments)
            if answer is not None and not (isinstance(answer, Deny) and isinstance(answer.reason, str)):
                discard(answer)
                raise TypeError(f"a gate answers None or Deny(reason), not {answer!r}")
            verdict = None if answer is None else Deny(as_unicode(answer.reason))
        return verdict  # noqa: RET504 - where something was raised, it is not the answer

    async def startup(self, daemon: object) -> None:
        """Tell the plugins that the daemon is up. A hook that takes longer than `gate_seconds` goes on by itself."""
        await self._tell("a2ad_startup", daemon, cancel=False)

    async def shutdown(self, daemon: object) -> None:
        """Tell the plugins that the daemon stops. What takes longer than `gate_seconds`, in all, is cancelled."""
        await self._tell("a2ad_shutdown", daemon, cancel=True)

    async def _tell(self, hook: str, daemon: object, *, cancel: bool) -> None:
        async def tell(impl: pluggy.HookImpl) -> None:
            with self._logged(impl, hook):
                await self._call_async(impl, {"daemon": daemon})

        end = asyncio.get_running_loop().time() + self._gate_seconds
        for impl in self._impls[hook]:
            left = max(0.0, end - asyncio.get_running_loop().time()) if cancel else self._gate_seconds
            task = await self._bounded(tell(impl), cancel=cancel, seconds=left)
            if not task.done():
                self._log.warning("plugin hook takes long", plugin=self._names[impl.plugin_name], hook=hook)

    async def _bounded(
        self, work: Coroutine[Any, Any, Any], *, cancel: bool = True, seconds: float | None = None
    ) -> asyncio.Task[Any]:
        # A task of its own can be left behind where it does not heed its cancellation.
        task = asyncio.create_task(work)
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        try:
            await asyncio.wait({task}, timeout=self._gate_seconds if seconds is None else seconds)
        finally:
            if cancel and not task.done():
                task.cancel()
        return task

    async def _call_async(self, impl: pluggy.HookImpl, arguments: Mapping[str, Any]) -> Any:
        if inspect.iscoroutinefunction(impl.function):
            return await invoke(impl, arguments)
        result = await _in_thread(partial(invoke, impl, arguments), self._slots[impl])
        return await result if inspect.isawaitable(result) else result


async def _in_thread(function: Callable[[], Any], slots: asyncio.Semaphore) -> Any:
    """Call it in a daemon thread: one that hangs must not keep the process alive, as the executor's threads would."""
    await slots.acquire()
    loop = asyncio.get_running_loop()
    outcome: asyncio.Future[tuple[Any, BaseException | None]] = loop.create_future()

    def settle(result: Any, error: BaseException | None) -> None:
        slots.release()
        if outcome.done():  # nobody waits any more
            discard(result)
        else:
            outcome.set_result((result, error))

    def work() -> None:
        result, failure = None, None
        try:
            result = function()
        except BaseException as error:  # noqa: BLE001 - it is raised again where the caller waits
            failure = error
        with suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(settle, result, failure)

    threading.Thread(target=copy_context().run, args=(work,), name="a2ad-plugin", daemon=True).start()
    result, error = await outcome
    if error is not None:
        raise error
    return result


def invoke(impl: pluggy.HookImpl, arguments: Mapping[str, Any]) -> Any:
    # An implementation may take fewer arguments than the specification has.
    return impl.function(*(arguments[name] for name in impl.argnames))


def discard(result: object) -> None:
    if inspect.iscoroutine(result):
        result.close()


def _current_task() -> asyncio.Task[Any] | None:
    try:
        return asyncio.current_task()
    except RuntimeError:  # on the command line there is no loop
        return None


def _denial(plugin: str) -> Deny:
    return Deny(f"policy plugin {plugin} failed")
