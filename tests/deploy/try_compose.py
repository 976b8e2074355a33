"""Restarts both servers of a running compose project, one after the other, while trainers report through its load balancer:

    python -m tests.deploy.try_compose

Prints what the trainers saw; exit code 0 if no report failed or was lost. Needs `docker compose` (or another command named by
DOCKER_COMPOSE) and a project that was started as docs/deploy.md says.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

from tests.deploy.trainers import Trainers, summary

DEPLOY = Path(__file__).parents[2] / "deploy"
COMPOSE = os.environ.get("DOCKER_COMPOSE", "docker compose").split()


def main() -> int:
    """Returns the exit code."""
    trainers = Trainers("127.0.0.1:50051", (DEPLOY / "secrets/trainer.env").read_text().strip().removeprefix("FADE_TOKEN="))
    time.sleep(3)
    for server in ("fade-1", "fade-2"):
        subprocess.run([*COMPOSE, "restart", server], cwd=DEPLOY, check=True)
        subprocess.run([*COMPOSE, "up", "--detach", "--no-build", "--no-recreate", "--wait", server], cwd=DEPLOY, check=True)
        time.sleep(3)
    outcomes = trainers.stop()
    print(summary(outcomes))
    return 0 if all(set(item.sources) == {"SERVER"} and item.digest == item.expected for item in outcomes) else 1


if __name__ == "__main__":
    sys.exit(main())
