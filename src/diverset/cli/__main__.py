"""`python -m diverset.cli`."""

import sys

from diverset.cli import main

sys.exit(main())
