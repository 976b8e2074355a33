"""`make faults`: real servers, real clients, and everything that can go wrong between them, checked against a small model.

The last line counts: faults injected, runs, observations in their histories, acknowledgements (replays included), reports sent
again because nobody answered, restores, seconds, and what was found: lost, doubled, otherwise broken.
"""

from __future__ import annotations

import argparse
import logging
import secrets
import sys

from tests.faults.backends import BACKENDS
from tests.faults.harness import run


def main() -> int:
    """0 if nothing was lost, doubled or broken."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description=__doc__)
    parser.add_argument("--store", choices=sorted(BACKENDS), default="sqlite")
    parser.add_argument(
        "--seed", default=secrets.token_hex(4), help="decides what is done and what goes wrong (default: a new one)"
    )
    parser.add_argument("--faults", type=int, default=2000, help="default: %(default)s")
    parser.add_argument("--seconds", type=float, default=3600.0, help="longest time (default: %(default)s)")
    options = parser.parse_args()
    logging.getLogger("fade_client").setLevel(logging.CRITICAL)  # it warns of each fault that it meets
    print(f"store {options.store}, seed {options.seed}", flush=True)
    result = run(options.store, options.seed, options.faults, options.seconds)
    print(result.report())
    return 1 if result.findings or result.faults.total() < options.faults else 0


if __name__ == "__main__":
    sys.exit(main())
