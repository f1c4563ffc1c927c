"""What the configuration's strings stand for: addresses, host names, URLs. Every parser raises `ValueError`."""

from __future__ import annotations

import re
from ipaddress import IPv4Address, IPv6Address
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

#: what stands where a secret is
MASK = "***"
#: what is in the name of something secret
SECRET_NAME = re.compile("token|key|secret|password", re.IGNORECASE)

#: the daemon's own paths
CONTROL_PATH, PANEL_PATH = "/a2a/api", "/a2a/panel"
#: where a daemon that listens on every address is reached from this machine
THIS_MACHINE = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - compared, not bound
LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})

_ADDRESS = re.compile(r"(?:\[(?P<v6>[^\]]+)\]|(?P<name>[^\[\]:]+)):(?P<port>[0-9]{1,5})")
_HOST_NAME = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9._-]*[A-Za-z0-9_])?\.?")
_BLANK = re.compile(r"[\x00-\x20\x7f]")
_STORE_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:\S*")
# up to the last @: a password may have one in it
_URL_PASSWORD = re.compile(r"(?<=://)([^:/?#@]*):.*(?=@)")
_URL_PARAMETER = re.compile(rf"([?&;#][^=&;]*(?:{SECRET_NAME.pattern})[^=&;]*)=[^&;#]*", re.IGNORECASE)


class Address(NamedTuple):
    """Where to listen. An IPv6 host has no brackets here; `str(address)` puts them on. Port 0 takes a free one."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_address(text: str) -> Address:
    """`HOST:PORT`, with an IPv6 host in brackets (`[::1]:3080`); raises `ValueError`."""
    match = _ADDRESS.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is not HOST:PORT")
    port = int(match["port"])
    if port > 65535:
        raise ValueError(f"port {port} is past 65535")
    host = str(IPv6Address(match["v6"])) if match["v6"] else _host_name(match["name"])
    return Address(host, port)


def parse_listen(text: str) -> str:
    """The text itself, once it is known to be an address."""
    parse_address(text)
    return text


def parse_host(text: str) -> str:
    """A host name or an IP address, in lower case and without brackets, as a `Host` header is compared."""
    bare = text[1:-1] if text.startswith("[") and text.endswith("]") else text
    return str(IPv6Address(bare)) if ":" in bare else _host_name(bare).lower()


def _host_name(text: str) -> str:
    if not _HOST_NAME.fullmatch(text):
        raise ValueError(f"{text!r} is not a host name")
    # a name whose last label is a number is an IPv4 address or nothing (WHATWG URL, 3.5)
    if text.rstrip(".").rpartition(".")[2].isdigit():
        return str(IPv4Address(text))
    return text


def parse_web_url(text: str) -> str:
    """An absolute http or https URL without a user name, as it is."""
    if _BLANK.search(text):
        raise ValueError("a URL has no blanks")
    parts = urlsplit(text)
    if parts.scheme not in {"http", "https"} or not parts.hostname or parts.port == 0 or "@" in parts.netloc:
        raise ValueError("not an absolute http or https URL")
    return text


def parse_base_url(text: str) -> str:
    """A web URL that paths can be appended to: no query, no fragment, and no slash at its end."""
    if "?" in text or "#" in text:
        raise ValueError("a base URL has no query and no fragment")
    return parse_web_url(text).rstrip("/")


def parse_store_url(text: str) -> str:
    """A URL with a scheme; what follows the scheme is the store's own business."""
    if not _STORE_URL.fullmatch(text):
        raise ValueError("not a URL")
    return text


def parse_filled(text: str) -> str:
    """Any text that is not blank."""
    if not text.strip():
        raise ValueError("empty")
    return text


def parse_path(text: str) -> Path:
    """A path; `~` is the home directory."""
    if "\0" in text:
        raise ValueError("a path has no NUL")
    try:
        return Path(parse_filled(text)).expanduser()
    except RuntimeError as error:
        raise ValueError(str(error)) from error


def mask_url(url: str) -> str:
    """The URL without its password, and without what its parameters keep secret."""
    return _URL_PARAMETER.sub(rf"\1={MASK}", _URL_PASSWORD.sub(rf"\1:{MASK}", url))
