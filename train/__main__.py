"""``python -m train``."""

from __future__ import annotations

import sys

from turngrid.train.app import main

if __name__ == "__main__":
    sys.exit(main())
