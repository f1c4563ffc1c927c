"""A client's message as a model gets it: its text, its files, and its images where the model takes any."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from a2ad.executor import Attachment, prompt_text
from a2ad.model import PartDict

#: a text file that goes into the prompt, and all of them together, in bytes
INLINE_BYTES, INLINE_ALL_BYTES = 64 << 10, 256 << 10
#: the images of one request, in bytes; older ones are named instead
IMAGES_BYTES = 20 << 20
_IMAGES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
_TEXTS = frozenset({"json", "xml", "yaml", "x-yaml", "toml", "javascript", "x-sh", "sql", "csv", "x-ndjson"})
#: in a conversation, an image is a reference to its file
_IMAGE = "image_file"


def is_image(part: Mapping[str, Any]) -> bool:
    return part.get("type") == _IMAGE


async def read_content(
    parts: Sequence[PartDict], attachments: Sequence[Attachment], *, images: bool, inline: int
) -> str | list[dict[str, Any]]:
    """The `content` of a user's message. Text files are in it, `inline` bytes at most; other files are named."""
    texts, pictures = [prompt_text(parts)], []
    left = min(inline, INLINE_ALL_BYTES)
    for file in attachments:
        if images and (kind := _kind(file)) in _IMAGES:
            pictures.append(
                {"type": _IMAGE, "path": str(file.path), "mediaType": kind, "name": file.name,
                 "size": file.size}
            )  # fmt: skip
            continue
        said = await asyncio.to_thread(_text_of, file, min(left, INLINE_BYTES))
        left -= len(said.encode()) if said is not None else 0
        texts.append(_named(file.name, file.media_type, file.size) + (f"\n{said}" if said is not None else ""))
    text = "\n\n".join(text for text in texts if text)
    if not pictures:
        return text
    return [{"type": "text", "text": text}, *pictures] if text else pictures


def _kind(file: Attachment) -> str:
    """Its media type without parameters."""
    return file.media_type.partition(";")[0].strip().lower()


def _text_of(file: Attachment, limit: int) -> str | None:
    """What a text file says, None for any other and for one that is too long."""
    kind, _, subtype = _kind(file).partition("/")
    is_text = kind == "text" or subtype in _TEXTS or subtype.endswith(("+json", "+xml"))
    if not is_text or file.size > limit:
        return None
    try:
        text = file.path.read_bytes().decode("utf-8-sig")
    except (OSError, UnicodeDecodeError):
        return None
    return None if "\0" in text else text


def _named(name: str, media_type: str, size: int) -> str:
    return f"[Attachment: {name}, {media_type}, {size} bytes]"


async def with_images(messages: Sequence[dict[str, Any]], *, images: bool) -> list[dict[str, Any]]:
    """The messages with their images in them, the newest first as far as `IMAGES_BYTES` go; the others are named.
    So are all without `images`, and those whose file has gone.
    """
    if not any(_pictures(message) for message in messages):
        return list(messages)
    return await asyncio.to_thread(_with_images, messages, IMAGES_BYTES if images else -1)


def _with_images(messages: Sequence[dict[str, Any]], left: int) -> list[dict[str, Any]]:
    filled: list[dict[str, Any]] = []
    for message in reversed(messages):
        if not _pictures(message):
            filled.append(message)
            continue
        content = []
        for part in message["content"]:
            if is_image(part):
                left -= part["size"]
            content.append(_filled(part, fits=left >= 0) if is_image(part) else part)
        filled.append({**message, "content": content})
    return filled[::-1]


def _pictures(message: Mapping[str, Any]) -> list[Any]:
    content = message["content"]
    return [part for part in content if is_image(part)] if isinstance(content, list) else []


def _filled(part: Mapping[str, Any], *, fits: bool) -> dict[str, Any]:
    if fits:
        try:
            data = base64.b64encode(Path(part["path"]).read_bytes()).decode()
            return {"type": "image_url", "image_url": {"url": f"data:{part['mediaType']};base64,{data}"}}
        except OSError:
            pass
    return {"type": "text", "text": _named(part["name"], part["mediaType"], part["size"])}
