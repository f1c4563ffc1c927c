"""One agent process that speaks ACP: its sessions, their turns, and its end. It serves many sessions."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from typing import Any, TypeVar

import structlog
from acp import PROTOCOL_VERSION, RequestError
from acp.connection import Connection
from acp.meta import AGENT_METHODS, CLIENT_METHODS
from acp.schema import (
    AgentCapabilities,
    CancelNotification,
    ClientCapabilities,
    CloseSessionRequest,
    CloseSessionResponse,
    Implementation,
    InitializeRequest,
    InitializeResponse,
    PromptRequest,
    PromptResponse,
    RequestPermissionRequest,
)
from acp.utils import serialize_params
from pydantic import BaseModel, ValidationError

from a2ad import TaskFailed, __version__
from a2ad_acp.blocks import Block
from a2ad_acp.messages import Messages
from a2ad_acp.options import Options
from a2ad_acp.process import GRACE_SECONDS, KILL_SECONDS, AgentProcess
from a2ad_acp.turn import Turn

#: how long an agent may take to end a turn that is cancelled, or to close a session, in seconds
CANCEL_SECONDS, CLOSE_SECONDS = 5.0, 10.0
#: how long a process that has ended may still be read, and one that says no more may take to end, in seconds
END_SECONDS = 1.0
#: how long the end of a process is waited for, in seconds
GONE_SECONDS = GRACE_SECONDS + KILL_SECONDS + END_SECONDS
#: what is shown of an agent's own words, in characters
SHOWN = 1000
AUTH_REQUIRED = -32000

Answer = TypeVar("Answer", bound=BaseModel)
log = structlog.get_logger()


class Refused(TaskFailed):
    """The agent answered a request with an error."""


class Peer:
    """`initialize` it first; it ends when its last session is let go of, when it breaks the protocol, or with `stop`.

    A session that has to do with it is among its `users`. `retired`: it did not do what it was asked, so no new work
    goes to it, and it ends after the turns that go on.
    """

    def __init__(self, options: Options, process: AgentProcess) -> None:
        self.options = options
        self.users: set[object] = set()
        self.retired = False
        #: sessions that the process has open
        self.open_ids: set[str] = set()
        self.capabilities = AgentCapabilities()
        self._sign_in = ""
        self._turns: dict[str, Turn] = {}
        self._closing: dict[str, asyncio.Task[None]] = {}
        self._jobs: set[asyncio.Task[Any]] = set()
        self._process = process
        self._messages = Messages(process.stdout, process.stdin, process.masked)
        self._connection = Connection(self._handle, self._messages)
        self._why = ""
        self._known = asyncio.Event()
        self._watching = asyncio.create_task(self._watch())

    async def initialize(self) -> None:
        """Wait until it answers. Raises `TaskFailed` where it does not within `start_seconds`; it ends then."""
        try:
            await self._initialize()
        except BaseException:
            self.end_soon()
            raise

    async def _initialize(self) -> None:
        request = InitializeRequest(
            protocol_version=PROTOCOL_VERSION,
            client_capabilities=ClientCapabilities(),
            client_info=Implementation(name="a2ad", version=__version__),
        )
        answer = await self.call("initialize", request, InitializeResponse, self.options.start_seconds)
        if answer.protocol_version != PROTOCOL_VERSION:
            raise TaskFailed(f"The agent speaks version {answer.protocol_version} of ACP, not {PROTOCOL_VERSION}")
        self.capabilities = answer.agent_capabilities or self.capabilities
        self._sign_in = ", ".join(method.name for method in answer.auth_methods or ())

    @property
    def usable(self) -> bool:
        return self._process.running and not self.retired and not self._messages.over.is_set()

    @property
    def ending(self) -> bool:
        """It does not run any more, or not much longer."""
        return not self._process.running

    @property
    def ended(self) -> bool:
        return self._watching.done()

    @property
    def takes_images(self) -> bool:
        prompts = self.capabilities.prompt_capabilities
        return prompts is not None and bool(prompts.image)

    # requests

    async def call(self, method: str, request: BaseModel, answer: type[Answer], seconds: float | None = None) -> Answer:
        """Ask the agent; `method` is a key of `AGENT_METHODS`. Raises `Refused` where it answers with an error,
        `TaskFailed` where it does not answer, or with what is not valid.
        """
        method = AGENT_METHODS[method]
        try:
            async with asyncio.timeout(seconds):
                result = await self._connection.send_request(method, serialize_params(request))
            return answer.model_validate({} if result is None else result)
        except TimeoutError:
            said = f"; it wrote: {self._messages.banner}" if self._messages.banner else ""
            raise TaskFailed(self._words(f"did not answer `{method}` within {seconds or 0:g} seconds{said}")) from None
        except RequestError as error:
            raise Refused(self._refusal(error)) from None
        except ConnectionError:
            raise TaskFailed(await self._end()) from None
        except ValidationError as error:
            raise TaskFailed(self._words(f"answered `{method}` with what is not valid: {_fault(error)}")) from None

    def _refusal(self, error: RequestError) -> str:
        data = error.data
        more = data.get("details", data.get("message")) if isinstance(data, dict) else data
        text = f"{error}: {more}" if isinstance(more, str) and more not in str(error) else str(error)
        if error.code == AUTH_REQUIRED:
            text += f" (ways to sign in: {self._sign_in or 'none'})"
        return self._words(f"reported an error: {text}")

    async def _end(self) -> str:
        """Why there is no agent any more. Its status is known a little after its silence."""
        await self._known.wait()
        return self._words(self._why)

    def _words(self, text: str) -> str:
        return f"The agent {self._process.masked(text)}"[:SHOWN]

    # what the agent says

    async def _handle(self, method: str, params: Any, is_notification: bool) -> Any:
        """Runs in a task of its own for each message; the tasks begin in the order of the messages."""
        if method == CLIENT_METHODS["session_update"]:
            turn = self._turns.get(str(params.get("sessionId"))) if isinstance(params, dict) else None
            update = params.get("update") if turn is not None else None
            if turn is not None and isinstance(update, dict):
                turn.update(update)
            return None
        if method == CLIENT_METHODS["session_request_permission"]:
            request = RequestPermissionRequest.model_validate(params)
            turn = self._turns.get(request.session_id) or _ended_turn()
            return await turn.permission(request)
        if is_notification:
            return None
        raise RequestError.method_not_found(method)

    # turns

    def begin(self, session_id: str, blocks: Sequence[Block], turn: Turn) -> asyncio.Task[None]:
        """Prompt the agent; what comes of it is in the turn. The task ends with the agent's answer."""
        self._turns[session_id] = turn
        return self._spawn(self._prompt(session_id, blocks, turn))

    async def _prompt(self, session_id: str, blocks: Sequence[Block], turn: Turn) -> None:
        try:
            request = PromptRequest(session_id=session_id, prompt=list(blocks))
            turn.end(await self.call("session_prompt", request, PromptResponse))
        except TaskFailed as failure:
            turn.end(failure)
        finally:
            turn.end(TaskFailed("The agent was stopped"))
            if self._turns.get(session_id) is turn:
                del self._turns[session_id]
            self._tidy()

    async def cancel(self, session_id: str, turn: Turn, answering: asyncio.Task[None]) -> None:
        """Have the turn ended; where the agent does not heed that, it is left to itself and retired."""
        turn.end(TaskFailed("The turn was canceled"))
        request = serialize_params(CancelNotification(session_id=session_id))
        sending = self._spawn(self._connection.send_notification(AGENT_METHODS["session_cancel"], request))
        await asyncio.wait([answering], timeout=CANCEL_SECONDS)
        sending.cancel()
        if not answering.done():
            log.warning("acp.cancel_ignored", preset=self.options.preset)
            answering.cancel()
            self.retire()

    # sessions

    def close_session(self, session_id: str) -> None:
        """Let the agent close it, in the background, where it can; it stays open there otherwise."""
        sessions = self.capabilities.session_capabilities
        if self.usable and sessions is not None and sessions.close is not None and session_id in self.open_ids:
            self.open_ids.discard(session_id)
            self._closing[session_id] = self._spawn(self._close_session(session_id))

    async def _close_session(self, session_id: str) -> None:
        try:
            request = CloseSessionRequest(session_id=session_id)
            await self.call("session_close", request, CloseSessionResponse, CLOSE_SECONDS)
        except TaskFailed as failure:
            log.info("acp.session_not_closed", preset=self.options.preset, error=str(failure))
        finally:
            del self._closing[session_id]
            self._tidy()

    async def closed(self, session_id: str) -> None:
        """Wait for the end of a `close_session`."""
        if session_id in self._closing:
            await asyncio.wait([self._closing[session_id]])

    def leave(self, user: object) -> None:
        """The user is done with it."""
        self.users.discard(user)
        self._tidy()

    # its end

    def retire(self) -> None:
        self.retired = True
        self._tidy()

    def _tidy(self) -> None:
        if not self._turns and not self._closing and (self.retired or not self.users):
            self.end_soon()

    def end_soon(self) -> None:
        """End it in the background."""
        self.retired = True
        self._spawn(self._process.stop())

    async def stop(self) -> None:
        """End it, and wait for that."""
        self.retired = True
        try:
            await self._process.stop()
        except asyncio.CancelledError:
            self._process.kill()
            raise
        await self.gone()

    async def gone(self) -> None:
        """Wait for its end, as far as that can be had."""
        await asyncio.wait([self._watching], timeout=GONE_SECONDS)

    async def _watch(self) -> None:
        """Until nothing comes from it any more: then none of it is left running, and nobody waits for it."""
        exited, over = asyncio.create_task(self._process.wait()), asyncio.create_task(self._messages.over.wait())
        await asyncio.wait([exited, over], return_when=asyncio.FIRST_COMPLETED)
        if self._messages.fault is None:
            # one that has ended may have said something before; of one that says no more the status is wanted
            await asyncio.wait([exited, over], timeout=END_SECONDS)
        self._why = self._messages.fault or self._process.end
        self._known.set()
        log.info("acp.ended", preset=self.options.preset, why=self._process.masked(self._why))
        await self._process.stop()
        exited.cancel()
        over.cancel()
        await self._connection.close()

    def _spawn(self, job: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        task = asyncio.create_task(job)
        self._jobs.add(task)
        task.add_done_callback(self._forget)
        return task

    def _forget(self, task: asyncio.Task[Any]) -> None:
        self._jobs.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.debug("acp.job_failed", preset=self.options.preset, error=type(error).__name__)


def _ended_turn() -> Turn:
    turn = Turn("deny")
    turn.end(TaskFailed(""))
    return turn


def _fault(error: ValidationError) -> str:
    """The first of its faults, in a line."""
    first = error.errors(include_url=False)[0]
    return f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
