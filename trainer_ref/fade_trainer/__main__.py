"""`python -m fade_trainer`: the same options as `fade train`."""

import sys

from fade_trainer.cli import main

sys.exit(main())
