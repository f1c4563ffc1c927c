"""A daemon to be measured: one inbound whose skills run the bench executor, with limits that stand in nobody's way.

    python tests/bench/serve.py [--port N] [--state DIR] [--token TOKEN]

Prints "bench endpoint URL" once it is there, and runs until it is ended. With a token the inbound asks for one.
"""

import argparse
import signal
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.bench.support import LIMITS, PLUGIN, PRESET
from tests.daemon import DaemonProcess


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--state", type=Path)
    parser.add_argument("--token")
    args = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    with tempfile.TemporaryDirectory() as folder:
        daemon = DaemonProcess(args.state or Path(folder), plugin=PLUGIN, config=LIMITS, port=args.port)
        try:
            inbound = daemon.create_inbound(preset=PRESET)
            if args.token:
                daemon.act("inbound.setAuth", id=inbound, token=args.token)
            print("bench endpoint", daemon.endpoint(inbound), flush=True)
            daemon.process.wait()
        finally:
            daemon.kill()


main()
