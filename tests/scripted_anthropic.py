"""A scripted model on loopback that speaks Anthropic Messages: what a real agent is pointed at, without a key.

What it does follows from the last of these words in the newest user text that has one:

PLAIN   thinks, and says which words of the form `code-…` the conversation has had so far
TOOL    calls the tool of `TOOLCALL={"name": …, "arguments": {…}}`, and given its result does as PLAIN
SLOW    says 200 words, one every 0.1 s
LENGTH  says a little and is cut off
FAIL    an error of the provider
"""

import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from typing import Any

_WORDS = re.compile(r"\b(PLAIN|TOOL|SLOW|LENGTH|FAIL)\b")
_CODES = re.compile(r"\bcode-\w+")
_CALL = re.compile(r"TOOLCALL=(\{.*\})")


class ScriptedModel(ThreadingHTTPServer):
    """`url` is what an agent takes as its base URL. `requests` are the bodies so far, `hung_up` the words of answers
    whose reader went away before their end.
    """

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.url = f"http://127.0.0.1:{self.server_port}"
        self.requests: list[dict[str, Any]] = []
        self.hung_up: list[str] = []
        #: set when a test is over: nobody need wait for a slow answer
        self.over = threading.Event()
        self.call_ids = count(1)


@contextmanager
def scripted_model() -> Iterator[ScriptedModel]:
    with ScriptedModel() as model:
        thread = threading.Thread(target=model.serve_forever, daemon=True)
        thread.start()
        try:
            yield model
        finally:
            model.over.set()
            model.shutdown()
            thread.join()


class _Handler(BaseHTTPRequestHandler):
    server: ScriptedModel
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: object) -> None:
        pass

    def do_GET(self) -> None:
        self._json(200, {"data": [{"id": "scripted", "type": "model"}]})

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.requests.append(body)
        if not self.path.partition("?")[0].endswith("/messages"):
            self._json(404, {"type": "error", "error": {"type": "not_found_error", "message": self.path}})
            return
        word, answered = _asked(body)
        if word == "FAIL":
            error = {"type": "invalid_request_error", "message": "scripted failure"}
            self._json(400, {"type": "error", "error": error})
            return
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        self.close_connection = True
        try:
            self._answer("PLAIN" if answered else word, body)
        except (BrokenPipeError, ConnectionResetError):
            self.server.hung_up.append(word)

    def _json(self, status: int, value: Any) -> None:
        data = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _answer(self, word: str, body: dict[str, Any]) -> None:
        said = "\n".join(user_texts(body))
        usage = {"input_tokens": 10, "output_tokens": 1}
        self._event("message_start", message={"id": "m", "type": "message", "role": "assistant", "content": [],
                                              "model": body["model"], "stop_reason": None, "stop_sequence": None,
                                              "usage": usage})  # fmt: skip
        stop = "end_turn"
        if word == "TOOL":
            call = json.loads(_CALL.findall(said)[-1])
            self._block(0, {"type": "text", "text": ""}, [_text("Let me see. ")])
            self._block(
                1,
                {"type": "tool_use", "id": f"call-{next(self.server.call_ids)}", "name": call["name"], "input": {}},
                [{"type": "input_json_delta", "partial_json": json.dumps(call["arguments"])}],
            )
            stop = "tool_use"
        elif word == "SLOW":
            self._block(0, {"type": "text", "text": ""}, self._slowly())
        else:
            thought = [{"type": "thinking_delta", "thinking": "a secret thought"},
                       {"type": "signature_delta", "signature": "s"}]  # fmt: skip
            self._block(0, {"type": "thinking", "thinking": "", "signature": ""}, thought)
            codes = " ".join(dict.fromkeys(_CODES.findall(said))) or "none"
            self._block(1, {"type": "text", "text": ""}, [_text("Codes: "), _text(f"{codes}.")])
            stop = "max_tokens" if word == "LENGTH" else stop
        self._event("message_delta", delta={"stop_reason": stop, "stop_sequence": None}, usage={"output_tokens": 5})
        self._event("message_stop")

    def _slowly(self) -> Iterator[dict[str, Any]]:
        for number in range(200):
            yield _text(f"word{number} ")
            if self.server.over.wait(0.1):
                return

    def _block(self, index: int, block: dict[str, Any], deltas: Any) -> None:
        self._event("content_block_start", index=index, content_block=block)
        for delta in deltas:
            self._event("content_block_delta", index=index, delta=delta)
        self._event("content_block_stop", index=index)

    def _event(self, kind: str, **more: Any) -> None:
        self.wfile.write(f"event: {kind}\ndata: {json.dumps({'type': kind, **more})}\n\n".encode())
        self.wfile.flush()


def user_texts(body: dict[str, Any]) -> list[str]:
    """The texts of the user's messages, oldest first."""
    return [block["text"] for block in _user_blocks(body) if block["type"] == "text"]


def tool_results(body: dict[str, Any]) -> list[Any]:
    """What tools have brought back, oldest first."""
    return [block["content"] for block in _user_blocks(body) if block["type"] == "tool_result"]


def _asked(body: dict[str, Any]) -> tuple[str, bool]:
    """The newest word, and whether a tool has brought something back since."""
    word, answered = "PLAIN", False
    for block in _user_blocks(body):
        if block["type"] == "tool_result":
            answered = True
        elif block["type"] == "text" and (words := _WORDS.findall(block["text"])):
            word, answered = words[-1], False
    return word, answered


def _user_blocks(body: dict[str, Any]) -> list[dict[str, Any]]:
    blocks: list[dict[str, Any]] = []
    for message in body["messages"]:
        if message["role"] == "user":
            content = message["content"]
            blocks += [{"type": "text", "text": content}] if isinstance(content, str) else content
    return blocks


def _text(text: str) -> dict[str, Any]:
    return {"type": "text_delta", "text": text}
