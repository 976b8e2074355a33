"""deploy/prometheus with addresses of a test, and all else as it is."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from tests.deploy.stack import DEPLOY


def localised(folder: Path, *, targets: list[str], token: str, alertmanager: str) -> Path:
    """A copy of the folder in which Prometheus scrapes ``targets`` with ``token`` and tells ``alertmanager``."""
    copied = folder / "prometheus"
    shutil.copytree(DEPLOY / "prometheus", copied)
    (folder / "token").write_text(token)
    replaced = {
        "/run/secrets/prometheus_token": str(folder / "token"),
        '["fade-1:8080", "fade-2:8080"]': json.dumps(targets),
        '["alertmanager:9093"]': json.dumps([alertmanager]),
    }
    config = copied / "prometheus.yml"
    text = config.read_text("utf-8")
    for old, new in replaced.items():
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    config.write_text(text, "utf-8")
    return copied
