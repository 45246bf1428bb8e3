"""``python -m gpuviz``: the command line."""

import sys

from gpuviz.cli import main

sys.exit(main())
