"""`python -m fade_service serve`, the same as `fade serve`."""

import sys

from fade_service.cli import main

sys.exit(main())
