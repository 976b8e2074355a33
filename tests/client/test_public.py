"""What the package shows, and what importing it must not bring along."""

import subprocess
import sys

import fade_client

PUBLIC = [
    "AsyncFadeClient",
    "CheckpointError",
    "ClosedError",
    "Entropy",
    "FadeClient",
    "FadeClientError",
    "InvalidBatchError",
    "Part",
    "RejectedError",
    "RowStatus",
    "RunConfig",
    "Schedule",
    "SettingsError",
    "TrainerError",
    "UnavailableError",
    "Warning",
]


def test_the_public_names_are_these_and_all_are_there() -> None:
    assert sorted(fade_client.__all__) == PUBLIC
    assert all(hasattr(fade_client, name) for name in PUBLIC)


def test_importing_the_client_brings_no_heavy_or_clashing_package() -> None:
    code = """
import sys
import fade_client, fade_client.cli
heavy = ("torch", "fastapi", "redis", "uvicorn", "pydantic", "grpc_status.", "grpc_health.", "google.rpc", "fade_service")
found = sorted(name for name in sys.modules if name.startswith(heavy))
assert not found, found
"""
    subprocess.run([sys.executable, "-c", code], check=True)
