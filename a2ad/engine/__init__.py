"""The life of a task: `intake` takes a message in, `schedule` says when it runs, `run` drives its executor, `task`
makes each step durable and hands it out, `core` holds them together and ends them.
"""

from a2ad.engine.core import Engine
from a2ad.engine.encode import TaskView
from a2ad.engine.frames import Frame, Lagged, Reader
from a2ad.engine.intake import Accepted, Target
from a2ad.engine.task import LiveTask

__all__ = ["Accepted", "Engine", "Frame", "Lagged", "LiveTask", "Reader", "Target", "TaskView"]
