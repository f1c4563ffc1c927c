"""The plugins of the tests of misuse: each raises, hangs or talks nonsense in one of the places that call it."""

KINDS = ["SystemExit", "KeyboardInterrupt", "GeneratorExit", "CancelledError", "Untellable"]
LIMITS = "[limits]\ncancel_grace_seconds = 0.3\ngate_seconds = 1\nshutdown_seconds = 1\n"

#: in every plugin here: `blow("SystemExit")` raises it
HEAD = """
import asyncio, sys, threading, time
from a2ad import *


class Untellable(BaseException):
    def __str__(self): raise RuntimeError("no words")
    __repr__ = __str__


def blow(kind):
    if kind == "SystemExit":
        sys.exit(7)
    raise {"KeyboardInterrupt": KeyboardInterrupt, "GeneratorExit": GeneratorExit, "Untellable": Untellable,
           "CancelledError": asyncio.CancelledError}[kind]("why")


async def blow_later(kind):
    await asyncio.sleep(0)
    blow(kind)
"""

PLUGIN = f'''{HEAD}
OK = {{"text": "fine"}}


class Unreadable(list):
    def __init__(self, kind): super().__init__([OK]); self.kind = kind
    def __iter__(self): blow(self.kind)
    def __len__(self): blow(self.kind)


class Blows(Executor):
    async def execute(self, request):
        place, _, kind = request.text.partition(" ")
        if place == "first":
            blow(kind)
        yield Artifact(parts=[OK])
        if place == "awaiting":
            await blow_later(kind)
        elif place == "awaiting-task":
            await asyncio.create_task(blow_later(kind))
        elif place == "terminal":
            yield Status(TaskState.COMPLETED, "the end")
            blow(kind)
        elif place == "question":
            try:
                yield Status(TaskState.INPUT_REQUIRED, "which?")
            finally:
                blow(kind)
        elif place == "finally":
            try:
                await asyncio.sleep(600)
            finally:
                blow(kind)
        elif place == "task":
            for _ in range(5):
                self.kept = asyncio.create_task(blow_later(kind))
            await asyncio.sleep(0.05)
        elif place == "callback":
            for _ in range(5):
                asyncio.get_running_loop().call_soon(blow, kind)
                asyncio.get_running_loop().call_later(0.01, blow, kind)
            await asyncio.sleep(0.05)
        elif place == "artifact":
            yield Artifact(parts=Unreadable(kind))
        elif place == "closing":
            yield Status(TaskState.COMPLETED, Unreadable(kind))
        elif place == "asked":
            yield Status(TaskState.INPUT_REQUIRED, Unreadable(kind))
        elif place == "failed":
            raise TaskFailed(Unreadable(kind))


class Call(Executor):
    """Is no generator function: it raises when it is called."""
    def execute(self, request):
        blow(request.text)


class Thread(Executor):
    def execute(self, request):
        yield Artifact(parts=[OK])
        blow(request.text)


class Odd:
    """An async iterator with one event."""
    def __init__(self): self.events = [Artifact(parts=[OK])]
    def __aiter__(self): return self
    async def __anext__(self):
        if not self.events: raise StopAsyncIteration
        return self.events.pop()


class NoAwaitable(Odd):
    def aclose(self): return 5


class Exits(Odd):
    def aclose(self): sys.exit(3)


class Never(Odd):
    def aclose(self): return asyncio.get_running_loop().create_future()


class NoMethod(Odd):
    aclose = "no method"


class Evasive(Odd):
    def __getattr__(self, name): raise RuntimeError(f"do not ask me for {{name}}")


class Closing(Executor):
    def execute(self, request):
        return {{"5": NoAwaitable, "exits": Exits, "never": Never, "no method": NoMethod,
                "evasive": Evasive}}[request.text]()


class Rows(Executor):
    """Rows of events without an end."""
    async def execute(self, request):
        number = 0
        while True:
            number += 1
            if request.text == "notes":
                yield Status(TaskState.WORKING, "note " * 100)
            elif request.text == "chunks":
                yield Artifact(parts=[{{"text": "chunk " * 100}}], append=True)
            elif request.text == "artifacts":
                yield Artifact(parts=[OK], artifact_id=str(number))
            elif request.text == "empty chunks":
                yield Artifact(parts=[{{"text": ""}}], append=True)
            elif request.text == "the same again":
                yield Artifact(parts=[{{"text": "x" * 500}}])
            elif request.text == "bare notes":
                yield Status(TaskState.WORKING)


class Count(Executor):
    async def execute(self, request):
        for number in range(int(request.text)):
            yield Status(TaskState.WORKING, str(number))


class GivesUp(Executor):
    async def execute(self, request):
        for number in range(3):
            yield Artifact(parts=[{{"text": f"{{number}} "}}], append=True)
            try:
                await asyncio.wait_for(request.ask("which?"), 0.1)
            except TimeoutError:
                yield Status(TaskState.WORKING, "then without")
        yield Artifact(parts=[{{"text": "done"}}], append=True)


class AsksBehind(Executor):
    async def execute(self, request):
        self.asking = asyncio.create_task(request.ask("which?"))
        while "INPUT" not in request.text and not self.asking.done():
            await asyncio.sleep(0.01)
            yield Artifact(parts=[OK])


class Replies(Executor):
    may_reply = True

    async def execute(self, request):
        yield Reply(parts=[{{"text": f"re: {{request.text}}"}}])
        if request.text == "sleep":
            await asyncio.sleep(600)
        elif request.text == "artifact":
            yield Artifact(parts=[OK])
            yield Reply(parts=[OK])
            yield "nonsense"
        elif request.text in {KINDS}:
            blow(request.text)


ALL = {{"blows": Blows, "call": Call, "thread": Thread, "closing": Closing, "rows": Rows, "count": Count,
       "givesup": GivesUp, "asksbehind": AsksBehind, "replies": Replies}}


@hookimpl
def a2ad_register_executors(register):
    for name, kind in ALL.items():
        register(name, kind())


@hookimpl
def a2ad_register_presets(register):
    for name in ALL:
        register(name, {{"skills": [{{"id": "chat", "executor": name}}]}})
'''

GATE = f"""{HEAD}
def decide(text):
    place, _, kind = text.partition(" ")
    if place == "deny":
        return Deny({{"surrogate": "no \\ud800", "nothing": "", "number": 5}}[kind])
    if place == "odd":
        return {{"text": "no", "unshowable": Unshowable()}}[kind]


class Unshowable:
    def __repr__(self): raise RuntimeError("no words")
"""
GATES = {
    "gate_sync": f"""{GATE}
@hookimpl
def a2ad_inbound_task(decision):
    if decision.text.startswith("gate-sync"):
        blow(decision.text.partition(" ")[2])
    return decide(decision.text)
""",
    "gate_async": f"""{GATE}
@hookimpl
async def a2ad_inbound_task(decision):
    if decision.text.startswith("gate-async"):
        await blow_later(decision.text.partition(" ")[2])
""",
}
EVENTS = {
    f"event_{kind}": f"""{HEAD}
@hookimpl
def a2ad_event(event): blow("{kind}")
@hookimpl
def a2ad_agent_card(card, inbound): blow("{kind}")
"""
    for kind in KINDS
}
IMPORTS = {
    **{f"import_{kind}": f'{HEAD}\nblow("{kind}")' for kind in KINDS},
    **{
        f"register_{kind}": f'{HEAD}\n@hookimpl\ndef a2ad_register_executors(register): blow("{kind}")'
        for kind in KINDS
    },
    "import_surrogate": 'raise RuntimeError("\\ud800")',
    "import_group": 'raise BaseExceptionGroup("several", [SystemExit(), KeyboardInterrupt()])',
    "import_chain": f'{HEAD}\ntry:\n    blow("Untellable")\nexcept BaseException:\n    raise ValueError("then")',
}
