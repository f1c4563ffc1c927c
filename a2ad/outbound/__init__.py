"""Remote agents: `registry` keeps the connections, `connection` one card fresh, `client` makes a call and follows it,
`answer` puts together what comes, `tools` tells it to models.
"""

from a2ad.outbound.answer import Observer, Said, Stated
from a2ad.outbound.connection import Connection
from a2ad.outbound.net import OUTBOUND_HEADER, Net
from a2ad.outbound.registry import OutboundRegistry
from a2ad.outbound.tools import Caller, CallResult, ToolBox, call_skill, depth_of, for_model, keep_slot, list_tools

__all__ = [
    "OUTBOUND_HEADER",
    "CallResult",
    "Caller",
    "Connection",
    "Net",
    "Observer",
    "OutboundRegistry",
    "Said",
    "Stated",
    "ToolBox",
    "call_skill",
    "depth_of",
    "for_model",
    "keep_slot",
    "list_tools",
]
