import sys

from a2ad.cli import main

if not sys.flags.safe_path:
    # the folder in which it is called is at the head of the path: a folder in it would hide a plugin of the same name
    del sys.path[0]
main()
