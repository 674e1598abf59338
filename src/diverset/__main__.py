"""`python -m diverset`."""

import sys

from diverset.cli import main

sys.exit(main())
