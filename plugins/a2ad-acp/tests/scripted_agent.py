"""An ACP agent that does what it is told: JSON-RPC on stdio by hand, so that nothing of the plugin's library is in it.

Flags say what it can do (`resume`, `load`, `close`, `images`, `modes`, `mode-options`), that a session is one process's
(`lock`), and how it starts (`hang`, `banner`, `junk`, `exit`, `old`, `no-session`). Each prompt is a line of commands
that are separated by `;`: see `Turn`. What it hears is in `$SCRIPT_LOG`, a JSON object a line; its sessions are files
beside that.
"""

import json
import os
import signal
import subprocess
import sys
import threading
import time
import traceback
from pathlib import Path

FLAGS = set(sys.argv[1:])
LOG = Path(os.environ["SCRIPT_LOG"])
SESSIONS = LOG.parent / "sessions"
writing = threading.Lock()
answers: dict[int, dict] = {}
answered = threading.Condition()
open_sessions: dict[str, dict] = {}
turns: dict[str, "Turn"] = {}


def note(**what) -> None:
    with writing, LOG.open("a") as log:
        log.write(json.dumps({"pid": os.getpid(), **what}) + "\n")


def raw(line: str | bytes) -> None:
    data = line if isinstance(line, bytes) else line.encode()
    with writing:
        sys.stdout.buffer.write(data + b"\n")
        sys.stdout.buffer.flush()


def send(**message) -> None:
    raw(json.dumps({"jsonrpc": "2.0", **message}))


class Cancelled(Exception):
    """The turn is over."""


class Failed(Exception):
    """The turn ends with a JSON-RPC error."""


class Turn:
    """One prompt: its commands are the methods that begin with `do_`; what follows a command's name is its argument."""

    def __init__(self, session: dict, blocks: list[dict]) -> None:
        self.session = session
        self.blocks = blocks
        self.cancelled = threading.Event()
        self.stop_reason = "end_turn"
        self.usage: dict | None = None

    @property
    def text(self) -> str:
        return " ".join(block["text"] for block in self.blocks if block["type"] == "text")

    def run(self, request_id: object) -> None:
        try:
            for command in self.text.split(";"):
                name, _, argument = command.strip().partition(" ")
                getattr(self, f"do_{name}")(argument)
            result = {"stopReason": self.stop_reason} | ({"usage": self.usage} if self.usage else {})
        except Cancelled:
            result = {"stopReason": "cancelled"}
        except Failed as error:
            turns.pop(self.session["id"], None)
            send(id=request_id, error={"code": -32603, "message": "Internal error", "data": {"details": str(error)}})
            return
        turns.pop(self.session["id"], None)
        send(id=request_id, result=result)

    def update(self, what: str, /, **fields) -> None:
        update = {"sessionUpdate": what, **fields}
        send(method="session/update", params={"sessionId": self.session["id"], "update": update})

    def say(self, text: str, kind: str = "agent_message_chunk") -> None:
        self.update(kind, content={"type": "text", "text": text})

    def wait(self, seconds: float) -> None:
        if self.cancelled.wait(seconds):
            raise Cancelled

    # commands

    def do_say(self, text: str) -> None:
        for word in text.split():
            self.say(word + " ")

    def do_count(self, number: str) -> None:
        for n in range(int(number)):
            self.say(f"{n} ")

    def do_heard(self, _: str) -> None:
        self.say(" | ".join(self.session["heard"]))

    def do_blocks(self, _: str) -> None:
        self.say(json.dumps(self.blocks))

    def do_session(self, _: str) -> None:
        self.say(json.dumps({name: self.session[name] for name in ("cwd", "mcpServers", "mode")}))

    def do_env(self, _: str) -> None:
        self.say(json.dumps(dict(os.environ)))

    def do_think(self, text: str) -> None:
        self.say(text, "agent_thought_chunk")
        self.update("plan", entries=[{"content": text, "priority": "high", "status": "pending"}])
        self.update("available_commands_update", availableCommands=[])
        self.update("a_kind_of_the_future", secret=text)

    def do_image(self, data: str) -> None:
        self.update("agent_message_chunk", content={"type": "image", "data": data, "mimeType": "image/png"})

    def do_tool(self, name: str) -> None:
        self.update("tool_call", toolCallId="t1", title=name, kind="read", status="pending")
        self.update("tool_call_update", toolCallId="t1", status="in_progress", rawInput={"path": "x"})
        content = [{"type": "content", "content": {"type": "text", "text": "found"}}]
        for _ in range(2):
            self.update("tool_call_update", toolCallId="t1", title=f"Read x with {name}", status="completed",
                        content=content)  # fmt: skip

    def do_input(self, text: str) -> None:
        """A tool call with this JSON as its arguments."""
        update = '{"sessionUpdate": "tool_call", "toolCallId": "odd", "title": "odd", "rawInput": ' + text + "}"
        params = f'{{"sessionId": "{self.session["id"]}", "update": {update}}}'
        raw(f'{{"jsonrpc": "2.0", "method": "session/update", "params": {params}}}')
        self.update("tool_call_update", toolCallId="odd", status="completed")

    def do_unread(self, _: str) -> None:
        """Ask without end, and read no answer."""
        stops_reading.set()
        for number in range(100_000):
            send(id=10_000 + number, method="no/such/method", params={})

    def do_fail(self, name: str) -> None:
        self.update("tool_call", toolCallId="t2", title=name, status="failed", rawOutput={"why": "no"})

    def do_ask(self, argument: str) -> None:
        """`ask NAME [KINDS]`: permission for a tool call, with an option of each kind."""
        name, _, kinds = argument.partition(" ")
        self.update("tool_call", toolCallId=name, title=name, status="pending", rawInput={"of": name})
        options = [
            {"optionId": f"id-{kind}", "name": kind.replace("_", " ").capitalize(), "kind": kind}
            for kind in (kinds or "allow_always,allow_once,reject_once,reject_always").split(",")
            if kind != "none"
        ]
        answer = request("session/request_permission", sessionId=self.session["id"], toolCall={"toolCallId": name},
                         options=options)  # fmt: skip
        note(outcome=answer.get("result"), error=answer.get("error"))
        outcome = answer["result"]["outcome"]
        if outcome["outcome"] == "cancelled":
            self.wait(1)  # the cancel of the turn comes with it, or it was this one question's alone
        self.say(f"{name}: {outcome.get('optionId', outcome['outcome'])} ")

    def do_forge(self, _: str) -> None:
        """Ask with titles, names and ids that would be other lines of the question, and that drive a terminal."""
        call = {"toolCallId": "f", "title": "ls\n{}\nAnswer with one of: Yes (y)\x1b[8m", "rawInput": {"rm": "\x1b/"}}
        options = [{"optionId": "a\n\x1bb", "name": "No\r\nYes (y)\x1b[2J", "kind": "allow_once"}]
        answer = request("session/request_permission", sessionId=self.session["id"], toolCall=call, options=options)
        self.say(repr(answer["result"]["outcome"]["optionId"]))

    def do_asks(self, argument: str) -> None:
        """Several permissions at the same time."""
        asking = [threading.Thread(target=self.do_ask, args=(name,)) for name in argument.split()]
        for thread in asking:
            thread.start()
        for thread in asking:
            thread.join()

    def do_abandon(self, name: str) -> None:
        """Ask, and end the turn without waiting for an answer."""
        threading.Thread(target=self.do_ask, args=(name,), daemon=True).start()
        time.sleep(0.5)

    def do_ask_in_turn(self, names: str) -> None:
        """Ask for another name each time that the prompt comes."""
        self.do_ask(names.split()[len(self.session["heard"]) - 1])

    def do_deaf_ask(self, name: str) -> None:
        """Ask only once the turn is canceled."""
        self.cancelled.wait()
        self.do_ask(name)

    def do_ask_and_die(self, name: str) -> None:
        threading.Thread(target=self.do_ask, args=(name,), daemon=True).start()
        time.sleep(0.5)
        os._exit(4)

    def do_usage(self, _: str) -> None:
        self.update("usage_update", used=50, size=1000)
        self.usage = {"inputTokens": 7, "outputTokens": 2, "totalTokens": 9}

    def do_stop(self, reason: str) -> None:
        self.stop_reason = reason

    def do_error(self, text: str) -> None:
        raise Failed(text)

    def do_hang(self, _: str) -> None:
        self.wait(1000)

    def do_pause(self, _: str) -> None:
        """Hang, but not where the prompt comes again."""
        if len(self.session["heard"]) == 1:
            self.wait(1000)

    def do_deaf(self, _: str) -> None:
        """Heed no cancel, and no SIGTERM either."""
        signal_deaf.set()
        time.sleep(1000)

    def do_die(self, status: str) -> None:
        os._exit(int(status))

    def do_kill(self, _: str) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    def do_mute(self, _: str) -> None:
        """Close stdout, and stay."""
        os.close(1)
        time.sleep(1000)

    def do_junk(self, line: str) -> None:
        raw("x" * (60 << 20) if line == "giant" else line)

    def do_bytes(self, text: str) -> None:
        raw(bytes.fromhex(text))

    def do_flood(self, megabytes: str) -> None:
        for _ in range(int(megabytes)):
            sys.stderr.buffer.write(b"flood flood flood flood flood flood flood flood flood flood flo\n" * (1 << 14))
        sys.stderr.buffer.flush()

    def do_stderr(self, text: str) -> None:
        sys.stderr.write(text + "\n")
        sys.stderr.flush()

    def do_child(self, _: str) -> None:
        """A process of the agent's own, in its group, that heeds no SIGTERM."""
        script = "trap '' TERM; while :; do sleep 1; done"
        child = subprocess.Popen(["sh", "-c", script], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        self.say(f"child {child.pid} of {os.getpid()}")

    def do_late(self, text: str) -> None:
        """Say something once the turn is over."""

        def speak() -> None:
            while turns.get(self.session["id"]) is self:
                time.sleep(0.01)
            self.say(text)
            note(late=text)

        threading.Thread(target=speak, daemon=True).start()


signal_deaf = threading.Event()
stops_reading = threading.Event()


def request(method: str, **params) -> dict:
    """Ask the client; its whole answer."""
    with answered:
        number = len(answers) + 1
        answers[number] = {}
    send(id=number, method=method, params=params)
    with answered:
        answered.wait_for(lambda: answers[number])
        return answers[number]


def save(session: dict) -> None:
    SESSIONS.mkdir(exist_ok=True)
    path = SESSIONS / f"{session['id']}.json"
    path.with_suffix(".new").write_text(json.dumps(session))
    path.with_suffix(".new").replace(path)


def opened(session: dict, params: dict) -> dict:
    session |= {"cwd": params["cwd"], "mcpServers": params["mcpServers"], "mode": "plain", "pid": os.getpid()}
    open_sessions[session["id"]] = session
    save(session)
    modes = [{"id": mode, "name": mode.capitalize()} for mode in ("plain", "careful")]
    if "modes" in FLAGS:
        return {"modes": {"currentModeId": "plain", "availableModes": modes}}
    if "mode-options" in FLAGS:
        options = [{"value": mode["id"], "name": mode["name"]} for mode in modes]
        return {"configOptions": [{"id": "m", "name": "Mode", "category": "mode", "type": "select",
                                   "currentValue": "plain", "options": options}]}  # fmt: skip
    return {}


def again(params: dict) -> dict:
    session_id = params["sessionId"]
    if session_id in open_sessions:
        raise ValueError("the session is open")
    session = json.loads((SESSIONS / f"{session_id}.json").read_text())
    if "lock" in FLAGS and Path(f"/proc/{session['pid']}").exists():
        raise ValueError("another process has the session open")
    return opened(session, params)


def answer(method: str, params: dict) -> object:
    if method == "initialize":
        sessions = {name: {} for name in ("resume", "close") if name in FLAGS}
        capabilities = {"loadSession": "load" in FLAGS, "promptCapabilities": {"image": "images" in FLAGS},
                        "sessionCapabilities": sessions}  # fmt: skip
        return {"protocolVersion": 99 if "old" in FLAGS else 1, "agentCapabilities": capabilities, "authMethods": []}
    if method == "session/new":
        session = {"id": f"s{os.getpid()}-{len(open_sessions)}", "heard": []}
        if "no-session" in FLAGS:
            time.sleep(1000)
        return {"sessionId": session["id"], **opened(session, params)}
    if method == "session/resume" and "resume" in FLAGS:
        return again(params)
    if method == "session/load" and "load" in FLAGS:
        result = again(params)
        for text in open_sessions[params["sessionId"]]["heard"]:
            Turn(open_sessions[params["sessionId"]], []).say(f"replay of {text} ")
        return result
    if method == "session/close":
        open_sessions.pop(params["sessionId"])
        return {}
    if method == "session/set_mode":
        open_sessions[params["sessionId"]]["mode"] = params["modeId"]
        return {}
    if method == "session/set_config_option":
        open_sessions[params["sessionId"]]["mode"] = params["value"]
        return {"configOptions": []}
    raise ValueError(f"no method {method}")


def hear(message: dict) -> None:
    method, params = message.get("method"), message.get("params", {})
    if method is None:
        with answered:
            answers[message["id"]] = message
            answered.notify_all()
    elif method == "session/cancel":
        note(method=method)
        if params["sessionId"] in turns and not signal_deaf.is_set():
            turns[params["sessionId"]].cancelled.set()
    elif method == "session/prompt":
        if params["sessionId"] in turns:
            raise ValueError("the session is busy")
        session = open_sessions[params["sessionId"]]
        turn = turns[params["sessionId"]] = Turn(session, params["prompt"])
        session["heard"].append(turn.text)
        save(session)
        note(method=method, prompt=params["prompt"])  # who reads this may kill: what was heard is on the disk
        threading.Thread(target=turn.run, args=(message["id"],), daemon=True).start()
    else:
        note(method=method, params=params)
        send(id=message["id"], result=answer(method, params))


def main() -> None:
    signal.signal(signal.SIGTERM, lambda *_: None if signal_deaf.is_set() else os._exit(0))
    note(start=sorted(FLAGS), cwd=str(Path.cwd()), group=os.getpgid(0))
    if "exit" in FLAGS:
        sys.exit(7)
    if "hang" in FLAGS:
        time.sleep(1000)
    if "banner" in FLAGS:
        raw("Welcome to the scripted agent")
    if "junk" in FLAGS:
        for _ in range(2000):
            raw("junk at the start")
    for line in sys.stdin:
        if stops_reading.is_set():
            time.sleep(1000)
        message = json.loads(line)
        try:
            hear(message)
        except Exception as error:  # noqa: BLE001 - each request that fails is answered with an error
            note(error=traceback.format_exc())
            if "id" in message:
                send(id=message["id"], error={"code": -32000 if "sign-in" in FLAGS else -32602, "message": str(error)})


main()
