"""The life of a task: `intake` takes a message in, `starter` and `schedule` say when it runs, `run` drives its
executor, `task` is what it is and hands it out, `ledger` makes each step durable, `core` holds them together.
"""

from a2ad.engine.core import Engine
from a2ad.engine.encode import TaskView
from a2ad.engine.frames import Frame, Lagged, Reader
from a2ad.engine.intake import Accepted
from a2ad.engine.lending import lend_slot
from a2ad.engine.starter import Target
from a2ad.engine.task import LiveTask

__all__ = ["Accepted", "Engine", "Frame", "Lagged", "LiveTask", "Reader", "Target", "TaskView", "lend_slot"]
