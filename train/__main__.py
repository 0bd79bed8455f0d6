"""``python -m train``."""

import sys

from turngrid.train.app import main

if __name__ == "__main__":
    sys.exit(main())
