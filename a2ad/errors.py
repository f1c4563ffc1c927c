"""Every error that has a meaning outside the place that raises it.

    A2adError
    ├── ProtocolError                     what an A2A client is told
    │   ├── ParseError                    -32700
    │   ├── InvalidRequest                -32600
    │   │   └── BodyTooLarge, UnsupportedMediaType, HostRefused, RequestTimeout    413, 415, 403, 408
    │   ├── MethodNotFound                -32601
    │   ├── InvalidParams                 -32602  (names every field that is wrong)
    │   ├── InternalError                 -32603
    │   │   ├── StoreUnavailable          the database did not take or give what it was asked: try again
    │   │   ├── StoreRefused              it would be in vain to try again
    │   │   ├── ResourceExhausted         a limit is reached: 503
    │   │   │   └── RateLimited           for the rate of one source: 429
    │   │   └── Stopping                  the daemon is shutting down: 503
    │   ├── TaskNotFound                  -32001
    │   ├── TaskNotCancelable             -32002
    │   ├── PushNotificationNotSupported  -32003
    │   ├── UnsupportedOperation          -32004
    │   ├── ContentTypeNotSupported       -32005
    │   ├── VersionNotSupported           -32007, or -32009 in the dialect "a2a"
    │   └── Unauthorized                  -32040  (HTTP 401)
    ├── RemoteError                       a remote agent did not do what it was asked
    │   ├── RemoteRefused                 it said no, or this daemon does: asking again is in vain
    │   ├── RemoteAway                    it could not be reached, or was cut off, or is too busy
    │   └── RemoteInvalid                 what it answered makes no sense
    ├── ActionFailed                      a control action could not be done: HTTP 409
    ├── ConfigError                       the configuration cannot be used
    └── StartupError                      the daemon cannot start

An error carries its code, reason and HTTP status; only `web/` turns them into an answer
(reference 2.6; `protocol.md` 1 and 2).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from a2ad.model import as_unicode

ERROR_INFO = "type.googleapis.com/google.rpc.ErrorInfo"
BAD_REQUEST = "type.googleapis.com/google.rpc.BadRequest"
DOMAIN = "a2a-protocol.org"


def error_text(error: BaseException) -> str:
    """An exception's text, as Unicode. It may be a plugin's, and its `__str__` may raise: its name then, or where it
    says nothing.
    """
    try:
        text = as_unicode(str(error))
    except BaseException:  # noqa: BLE001 - a plugin's own code
        text = ""
    return text or type(error).__name__


class A2adError(Exception):
    """The root of all errors of this package."""


class ProtocolError(A2adError):
    """What an A2A client is told. `str(error)` is the sentence it reads."""

    code: ClassVar[int] = -32603
    #: the specification's number, where the reference has another one
    a2a_code: ClassVar[int | None] = None
    reason: ClassVar[str] = "INTERNAL_ERROR"
    status: ClassVar[int] = 200
    default: ClassVar[str] = "Internal error"

    def __init__(self, message: str | None = None, *, retry_after: int | None = None) -> None:
        super().__init__(message or self.default)
        #: seconds after which the client may try again (`Retry-After`)
        self.retry_after = retry_after

    def data(self) -> list[dict[str, Any]]:
        """`error.data`: always a list of google.rpc details (A2A 1.0.1, 9.5)."""
        return [{"@type": ERROR_INFO, "reason": self.reason, "domain": DOMAIN}]

    def to_json(self, *, a2a_dialect: bool = False) -> dict[str, Any]:
        """The JSON-RPC error object."""
        code = self.a2a_code if a2a_dialect and self.a2a_code is not None else self.code
        return {"code": code, "message": str(self), "data": self.data()}


class ParseError(ProtocolError):
    code = -32700
    reason = "PARSE_ERROR"
    default = "The request is not valid JSON"


class InvalidRequest(ProtocolError):
    code = -32600
    reason = "INVALID_REQUEST"
    default = "The request is not a JSON-RPC 2.0 request"


class MethodNotFound(ProtocolError):
    code = -32601
    reason = "METHOD_NOT_FOUND"
    default = "There is no such method"


class InvalidParams(ProtocolError):
    """`violations` are pairs of a JSON path and a sentence about it, all that were found."""

    code = -32602
    reason = "INVALID_PARAMS"
    default = "The parameters are not valid"

    def __init__(self, violations: Sequence[tuple[str, str]]) -> None:
        self.violations = tuple(violations)
        shown = "; ".join(f"{field}: {text}" if field else text for field, text in self.violations[:3])
        more = f" (and {len(self.violations) - 3} more)" if len(self.violations) > 3 else ""
        super().__init__(f"{self.default}: {shown}{more}")

    def data(self) -> list[dict[str, Any]]:
        fields = [{"field": field, "description": text} for field, text in self.violations]
        return [{"@type": BAD_REQUEST, "fieldViolations": fields}, *super().data()]


class InternalError(ProtocolError):
    pass


class StoreUnavailable(InternalError):
    reason = "STORE_UNAVAILABLE"
    default = "The task store does not answer; try again"


class StoreRefused(InternalError):
    reason = "STORE_REFUSED"
    default = "The task store refused what it was given"


class ResourceExhausted(InternalError):
    reason = "RESOURCE_EXHAUSTED"
    status = 503
    default = "Too many tasks are waiting; try again later"


class RateLimited(ResourceExhausted):
    status = 429
    default = "Too many requests from this address; try again later"


class Stopping(InternalError):
    reason = "UNAVAILABLE"
    status = 503
    default = "The daemon is stopping; what was recorded is kept and goes on at the next start"


class BodyTooLarge(InvalidRequest):
    reason = "REQUEST_TOO_LARGE"
    status = 413
    default = "The request body is too large"


class UnsupportedMediaType(InvalidRequest):
    code = -32005
    reason = "CONTENT_TYPE_NOT_SUPPORTED"
    status = 415
    default = "Content-Type must be application/json or application/a2a+json"


class HostRefused(InvalidRequest):
    reason = "HOST_REFUSED"
    status = 403
    default = "This Host is not one of the daemon's names"


class RequestTimeout(InvalidRequest):
    reason = "REQUEST_TIMEOUT"
    status = 408
    default = "The request body did not arrive in time"


class TaskNotFound(ProtocolError):
    code = -32001
    reason = "TASK_NOT_FOUND"
    default = "There is no such task"


class TaskNotCancelable(ProtocolError):
    code = -32002
    reason = "TASK_NOT_CANCELABLE"
    default = "The task has ended and cannot be canceled"


class PushNotificationNotSupported(ProtocolError):
    code = -32003
    reason = "PUSH_NOTIFICATION_NOT_SUPPORTED"
    default = "Push notifications are not supported"


class UnsupportedOperation(ProtocolError):
    code = -32004
    reason = "UNSUPPORTED_OPERATION"
    default = "This is not possible in the task's present state"


class ContentTypeNotSupported(ProtocolError):
    code = -32005
    reason = "CONTENT_TYPE_NOT_SUPPORTED"
    default = "No accepted output mode admits text"


class VersionNotSupported(ProtocolError):
    code = -32007
    a2a_code = -32009
    reason = "VERSION_NOT_SUPPORTED"
    default = "Only A2A version 1.0 is supported"


class Unauthorized(ProtocolError):
    code = -32040
    reason = "UNAUTHORIZED"
    status = 401
    default = "A valid bearer token is required"


class RemoteError(A2adError):
    """A remote agent, or a model's endpoint, did not do what it was asked. Its text may quote the remote: bounded, and
    without the token.
    """


class RemoteRefused(RemoteError):
    """The remote said no, or what it wants is not done. `reason` is that of an A2A error, where it named one."""

    def __init__(self, message: str, *, reason: str = "", status: int | None = None) -> None:
        super().__init__(message)
        self.reason = reason
        self.status = status


class RemoteAway(RemoteError):
    """The remote could not be reached, broke off, or is too busy: HTTP 429 or 5xx. It may be tried again."""

    def __init__(self, message: str, *, retry_after: float | None = None, unsent: bool = False) -> None:
        super().__init__(message)
        #: seconds that the remote asked to wait
        self.retry_after = retry_after
        #: nothing of the request was taken up
        self.unsent = unsent


class RemoteInvalid(RemoteError):
    """What the remote answered is no A2A 1.0 answer."""


class ConfigError(A2adError):
    """The configuration cannot be used. `problems` are whole sentences that name file, key and what was expected."""

    def __init__(self, problems: Sequence[str]) -> None:
        self.problems = tuple(problems)
        super().__init__("; ".join(self.problems))


class StartupError(A2adError):
    """The daemon cannot start: a port in use, a state directory held by another daemon, a newer database."""


class ActionFailed(A2adError):
    """A control action that could not be done: HTTP 409. `errors` names what is wrong by field, `more` is what else
    the answer says (`protocol.md` 7).
    """

    def __init__(
        self,
        message: str,
        errors: Mapping[str, Sequence[str]] | None = None,
        more: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(message)
        self.errors = dict(errors or {})
        self.more = dict(more or {})
