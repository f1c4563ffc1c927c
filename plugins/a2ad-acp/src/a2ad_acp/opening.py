"""How a session is opened: the one that was there before where the agent can go on with it, else a new one."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import structlog
from acp.schema import (
    LoadSessionRequest,
    LoadSessionResponse,
    McpServerStdio,
    NewSessionRequest,
    NewSessionResponse,
    ResumeSessionRequest,
    ResumeSessionResponse,
    SessionConfigOptionSelect,
    SetSessionConfigOptionResponse,
    SetSessionConfigOptionSelectRequest,
    SetSessionModeRequest,
    SetSessionModeResponse,
)
from pydantic import BaseModel

from a2ad import TaskFailed
from a2ad_acp.peer import Peer, Refused

Opened: TypeAlias = NewSessionResponse | ResumeSessionResponse | LoadSessionResponse

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Place:
    """Where a session is to be: its directory, its MCP servers, and the agent's id of it, where it had one."""

    cwd: str
    servers: Sequence[McpServerStdio]
    session_id: str | None


async def open_session(peer: Peer, place: Place) -> str:
    """The agent's id of the session. Raises `TaskFailed`."""
    seconds = peer.options.start_seconds
    try:
        async with asyncio.timeout(seconds):
            return await _open(peer, place)
    except TimeoutError:
        peer.retire()
        raise TaskFailed(f"The agent did not open a session within {seconds:g} seconds") from None


async def _open(peer: Peer, place: Place) -> str:
    session_id = place.session_id
    if session_id is not None:
        await peer.closed(session_id)
        if session_id in peer.open_ids or await _taken_up(peer, place, session_id):
            return session_id
        log.info("acp.session_begins_anew", preset=peer.options.preset, session=session_id)
    request = NewSessionRequest(cwd=place.cwd, mcp_servers=list(place.servers))
    opened = await peer.call("session_new", request, NewSessionResponse)
    peer.open_ids.add(opened.session_id)
    await _set_mode(peer, opened.session_id, opened)
    return opened.session_id


async def _taken_up(peer: Peer, place: Place, session_id: str) -> bool:
    """Resume it, else load it. What a load says again is heard by nobody: no turn is going on."""
    where = {"session_id": session_id, "cwd": place.cwd, "mcp_servers": list(place.servers)}
    ways: list[tuple[str, BaseModel, type[ResumeSessionResponse | LoadSessionResponse]]] = []
    sessions = peer.capabilities.session_capabilities
    if sessions is not None and sessions.resume is not None:
        ways.append(("session_resume", ResumeSessionRequest.model_validate(where), ResumeSessionResponse))
    if peer.capabilities.load_session:
        ways.append(("session_load", LoadSessionRequest.model_validate(where), LoadSessionResponse))
    for method, request, answer in ways:
        try:
            opened = await peer.call(method, request, answer)
        except Refused as refusal:
            log.info("acp.session_not_taken_up", preset=peer.options.preset, method=method, error=str(refusal))
        else:
            peer.open_ids.add(session_id)
            await _set_mode(peer, session_id, opened)
            return True
    return False


async def _set_mode(peer: Peer, session_id: str, opened: Opened) -> None:
    """The preset's mode; agents offer modes as such, or as a configuration option of that category."""
    wanted = peer.options.mode
    if wanted is None:
        return
    known = [] if opened.modes is None else [mode.id for mode in opened.modes.available_modes]
    if wanted in known:
        request = SetSessionModeRequest(session_id=session_id, mode_id=wanted)
        await peer.call("session_set_mode", request, SetSessionModeResponse)
        return
    for option in opened.config_options or ():
        if isinstance(option, SessionConfigOptionSelect) and option.category == "mode":
            values = _values(option)
            known += [value for value in values if value not in known]
            if wanted in values:
                choice = SetSessionConfigOptionSelectRequest(session_id=session_id, config_id=option.id, value=wanted)
                await peer.call("session_set_config_option", choice, SetSessionConfigOptionResponse)
                return
    raise TaskFailed(f"The agent has no mode {wanted!r}; it has: {', '.join(known) or 'none'}")


def _values(option: SessionConfigOptionSelect) -> list[str]:
    """In groups or not."""
    values = []
    for choice in option.options:
        values += [choice.value] if hasattr(choice, "value") else [each.value for each in choice.options]
    return values
