"""`fade simulate` against a real server."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from fade_client import FadeClient, RunConfig
from fade_client.cli import main
from fade_service import FadeServer


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """A server with a run of 30 observations whose solve rate is 1/4 and whose entropy falls by 3 % each."""
    with FadeServer("memory://", grpc_port=0, http_port=0) as server:
        address = f"127.0.0.1:{server.grpc_port}"
        client = FadeClient(address, run="qwen", config=RunConfig(), on_unavailable="raise")
        for number in range(30):
            client.observe(f"b{number}", rewards=[1, 0, 0, 0], groups=[0] * 4, entropy=(100 * 0.97**number, 100))
        client.close()
        yield address


def said(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    """Exit code, output, errors."""
    code = main(["simulate", "qwen", *arguments])
    out, err = capsys.readouterr()
    return code, out, err


def test_settings_stand_side_by_side_with_what_was_recorded(address: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = said(capsys, "--server", address, "--alpha-max", "2", "--set", "delta_rule=fixed,delta=0.7")
    assert code == 0
    lines = out.splitlines()
    assert lines[1:4] == ["A: recorded", "B: alpha_max=2.0", "C: delta_rule=fixed,delta=0.7"]
    header = next(line for line in lines if line.startswith("REVISION")).split()
    last = lines[[line.split()[:1] for line in lines].index(["30"])].split()
    assert header == "REVISION SOLVED ENTROPY ALPHA A DELTA A ALPHA B DELTA B ALPHA C DELTA C".split()
    solved = 0.25 + 0.25 * 0.98**30  # p_hat
    alpha = f"{1.5 * (1 - solved) / solved:.3f}"
    assert last[:2] == ["30", f"{solved:.3f}"] and float(alpha) > 2
    assert last[3:] == [alpha, "1.000", "2.000", "1.000", alpha, "0.700"]
    assert "would have reported others" in lines[-1]


def test_json_has_every_number(address: str, capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = said(capsys, "--server", address, "--target-entropy", "0.9", "--json")
    told = json.loads(out)
    (one,) = told["simulations"]
    assert (told["run"], told["branch"], told["revision"]) == ("projects/default/runs/qwen", "main", 30)
    assert one["label"] == "target_entropy_nats=0.9" and one["environments"]["default"]["revision"] == list(range(1, 31))
    h_hat = one["environments"]["default"]["entropy_nats"][-1]
    assert one["environments"]["default"]["delta"][-1] == min(1.0, 1 + h_hat - 0.9)
    assert told["recorded"]["default"]["target_entropy_nats"] == [0.5] * 30


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--set", "reward_min=0"], "'reward_min' cannot be simulated"),
        (["--set", "alpha_max"], "'alpha_max' has no value"),
        (["--alpha-max", "many"], "alpha_max is 'many'; give a number"),
        (["--entropy-warmup", "1.5"], "give a whole number"),
        (["--delta-rule", "sideways"], "choose one of"),
    ],
)
def test_a_wrong_command_line_is_told_as_such(
    address: str, capsys: pytest.CaptureFixture[str], arguments: list[str], told: str
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["simulate", "qwen", "--server", address, *arguments])
    assert ended.value.code == 2 and told in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--alpha-max", "0.5"], "settings[0].config.alpha_max"),
        (["--branch", "nowhere"], "has no branch"),
    ],
)
def test_what_the_server_refuses_is_told(
    address: str, capsys: pytest.CaptureFixture[str], arguments: list[str], told: str
) -> None:
    code, _, err = said(capsys, "--server", address, *arguments)
    assert code == 1 and told in err and len(err.splitlines()) == 1
