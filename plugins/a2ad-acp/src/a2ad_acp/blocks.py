"""A message's parts as the blocks of an ACP prompt, and an agent's blocks as parts."""

from __future__ import annotations

import asyncio
import base64
import json
import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from acp.schema import (
    AudioContentBlock,
    BlobResourceContents,
    EmbeddedResourceContentBlock,
    ImageContentBlock,
    ResourceContentBlock,
    TextContentBlock,
)

from a2ad import Attachment

Block: TypeAlias = TextContentBlock | ImageContentBlock | ResourceContentBlock
SaidBlock: TypeAlias = Block | AudioContentBlock | EmbeddedResourceContentBlock


async def prompt_blocks(
    parts: Sequence[dict[str, Any]], attachments: Sequence[Attachment], *, images: bool, folder: Callable[[], Path]
) -> list[Block]:
    """In the order of the parts. `images`: the agent takes images; all else that is bytes goes into the folder."""
    files = iter(attachments)
    return [await _block(part, files, images=images, folder=folder) for part in parts]


async def _block(
    part: dict[str, Any], files: Iterator[Attachment], *, images: bool, folder: Callable[[], Path]
) -> Block:
    if "raw" not in part:
        text = part.get("text", part.get("url"))
        return TextContentBlock(type="text", text=json.dumps(part["data"]) if text is None else text)
    file = next(files)
    if images and file.media_type.startswith("image/"):
        data = base64.b64encode(await asyncio.to_thread(file.path.read_bytes)).decode()
        return ImageContentBlock(type="image", data=data, mime_type=file.media_type)
    path = await asyncio.to_thread(_copy, file, folder())
    return ResourceContentBlock(
        type="resource_link", uri=path.as_uri(), name=file.name, mime_type=file.media_type, size=file.size
    )


def _copy(file: Attachment, folder: Path) -> Path:
    """Where the agent has the file for itself: under its name, apart from others of that name."""
    path = folder / file.sha256[:12] / file.name
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    shutil.copyfile(file.path, path)
    return path


def said_part(block: SaidBlock) -> dict[str, Any]:
    """What an agent says, as an A2A part."""
    if isinstance(block, TextContentBlock):
        return {"text": block.text}
    if isinstance(block, ImageContentBlock | AudioContentBlock):
        return {"raw": _bytes(block.data), "mediaType": block.mime_type}
    if isinstance(block, ResourceContentBlock):
        return {"url": block.uri, "filename": block.name} | _media_type(block.mime_type)
    contents = block.resource
    if isinstance(contents, BlobResourceContents):
        return {"raw": _bytes(contents.blob)} | _media_type(contents.mime_type)
    return {"text": contents.text} | _media_type(contents.mime_type)


def _media_type(mime_type: str | None) -> dict[str, Any]:
    return {"mediaType": mime_type} if mime_type else {}


def _bytes(text: str) -> bytes:
    return base64.b64decode(text)
