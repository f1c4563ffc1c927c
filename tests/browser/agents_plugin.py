"""The agents whose work the panel's pages show: a plugin file for the daemon, its skills in one preset.

It is written against the plugin API alone, and is read as text by the fixtures. The executors that it does not register
are those of `tests/interop/agents_plugin.py`, which stands beside it.
"""

import struct
import zlib

from a2ad import Artifact, Executor, Status, TaskFailed, TaskState, hookimpl


def png(width, height):
    """A picture of one colour."""

    def chunk(kind, body):
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    rows = (b"\0" + bytes((20, 100, 110)) * width) * height
    header = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + header + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


PICTURE = {"mediaType": "image/png", "filename": "picture.png"}
MARKDOWN = """# Heading

A paragraph with **bold**, `code` and [a link](https://example.org/page).

- one
- two

| a | b |
|---|---|
| 1 | 2 |

```python
print("hello")
```
"""
#: each would set `window.hacked` where it ran, or ask another host for something
HOSTILE = """<script>window.hacked = 1</script><img src=x onerror="window.hacked = 2">
<svg onload="window.hacked = 3"></svg><iframe srcdoc="<script>parent.hacked = 4</script>"></iframe>
<a href="javascript:window.hacked = 5">plain link</a> [markdown link](javascript:window.hacked=6)
[data link](data:text/html,<script>window.hacked=7</script>) ![image](https://other.example/pixel.png)
<form action="https://other.example/"><input name="token"><button>Send</button></form>
<style>body { display: none }</style><link rel="stylesheet" href="https://other.example/style.css">
<base href="https://other.example/"><meta http-equiv="refresh" content="0; url=https://other.example/">
<div style="position: fixed; inset: 0; background: red" id="root" class="app">over everything</div>
"""


class Rich(Executor):
    """An artifact of each kind."""

    async def execute(self, request):
        yield Artifact(parts=[{"text": MARKDOWN}], artifact_id="text", name="Text")
        yield Artifact(parts=[{"data": {"city": "Oslo", "days": [{"sun": True}, None, 1.5]}}], artifact_id="data")
        yield Artifact(parts=[{"raw": png(120, 80), **PICTURE}], artifact_id="image")
        report = {"raw": b"a,b\n1,2\n", "mediaType": "text/csv", "filename": "report.csv"}
        yield Artifact(parts=[report], artifact_id="file", description="The figures")
        yield Artifact(parts=[{"url": "https://example.org/more.pdf", "filename": "more.pdf"}], artifact_id="link")


class Hostile(Executor):
    """The same, of somebody who means ill."""

    async def execute(self, request):
        page = {"mediaType": "text/html", "filename": "<img src=x onerror=window.hacked=8>.html"}
        drawing = b'<svg xmlns="http://www.w3.org/2000/svg"><script>window.hacked = 9</script></svg>'
        yield Artifact(parts=[{"text": HOSTILE}], artifact_id="<b>text</b>", name=HOSTILE)
        yield Artifact(parts=[{"data": {HOSTILE: HOSTILE, "__proto__": {"hacked": 10}}}], artifact_id="data")
        yield Artifact(parts=[{"raw": HOSTILE.encode(), **page}], artifact_id="page")
        yield Artifact(parts=[{"raw": drawing, "mediaType": "image/svg+xml", "filename": "a.svg"}], artifact_id="image")
        yield Artifact(parts=[{"url": "javascript:window.hacked=11", "filename": "report.pdf"}], artifact_id="link")
        yield Artifact(parts=[{"url": "https://other.example/a.png", "mediaType": "image/png"}], artifact_id="remote")


class Hostage(Executor):
    """Asks for an answer, in the same words."""

    async def execute(self, request):
        answer = await request.ask(HOSTILE, options=[{"id": "a", "name": HOSTILE}, {"id": "b", "name": "b"}])
        yield Artifact(parts=answer["parts"])


class Sorry(Executor):
    async def execute(self, request):
        yield Status(TaskState.WORKING, HOSTILE)
        raise TaskFailed(HOSTILE)


class Large(Executor):
    """10 MB of text: in words, and in one word."""

    async def execute(self, request):
        yield Artifact(parts=[{"text": "word " * 1_000_000}], artifact_id="words")
        yield Artifact(parts=[{"text": "x" * 5_000_000}], artifact_id="word")


OWN = {"rich": Rich(), "hostile": Hostile(), "large": Large(), "hostage": Hostage(), "sorry": Sorry()}
OTHERS = ("work", "open", "ask", "login", "fail", "reject", "mirror", "direct")


@hookimpl
def a2ad_register_executors(register):
    for name, executor in OWN.items():
        register(name, executor)


@hookimpl
def a2ad_register_presets(register):
    skills = [{"id": name, "executor": name} for name in (*OWN, *OTHERS)]
    skills.insert(0, {"id": "chat", "executor": "session"})
    register("pages", {"name": "Pages", "agent": "echo", "skills": skills})
    named = [{**skill, "name": HOSTILE, "description": HOSTILE, "tags": [HOSTILE]} for skill in skills]
    register("hostile", {"name": HOSTILE, "description": HOSTILE, "agent": "echo", "skills": named})
