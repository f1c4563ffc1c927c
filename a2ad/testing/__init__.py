"""For the tests of plugins: real daemons, started by their command and talked to over HTTP.

pytest has the fixtures `a2ad_daemon` and `a2ad_launch` wherever a2ad is installed (`a2ad.pytest_plugin`).
"""

from a2ad.testing.daemon import DaemonProcess, message, text_of
from a2ad.testing.doctor import doctor

__all__ = ["DaemonProcess", "doctor", "message", "text_of"]
