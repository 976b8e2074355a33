"""deploy/kubernetes against Kubernetes' own schemas, and against what it is made of."""

from __future__ import annotations

import runpy
from typing import Any

import kubernetes_validate
import pytest
import yaml
from tests.deploy.stack import DEPLOY

FOLDER = DEPLOY / "kubernetes"
LABELS = {"app.kubernetes.io/name": "fade"}
MANIFESTS: dict[str, Any] = {
    manifest["kind"]: manifest
    for name in yaml.safe_load((FOLDER / "kustomization.yaml").read_text("utf-8"))["resources"]
    for manifest in yaml.safe_load_all((FOLDER / name).read_text("utf-8"))
}
POD = MANIFESTS["Deployment"]["spec"]["template"]["spec"]
CONTAINER = POD["containers"][0]


@pytest.mark.parametrize("kind", ["Deployment", "Service", "PodDisruptionBudget", "NetworkPolicy"])
@pytest.mark.parametrize("version", ["1.32", "1.37"])
def test_manifests_fit_their_schema(kind: str, version: str) -> None:
    assert kubernetes_validate.validate(MANIFESTS[kind], version, strict=True)


def test_everything_is_about_the_same_pods() -> None:
    assert MANIFESTS["Deployment"]["spec"]["template"]["metadata"]["labels"] == LABELS
    assert MANIFESTS["Service"]["spec"]["selector"] == MANIFESTS["Service"]["metadata"]["labels"] == LABELS
    for kind, field in (
        ("Deployment", "selector"), ("PodDisruptionBudget", "selector"), ("NetworkPolicy", "podSelector"),
        ("ServiceMonitor", "selector"),
    ):  # fmt: skip
        assert MANIFESTS[kind]["spec"][field] == {"matchLabels": LABELS}


def test_ports_are_those_that_the_server_serves_by_default() -> None:
    ports = {port["name"]: port["containerPort"] for port in CONTAINER["ports"]}
    assert ports == {"grpc": 50051, "http": 8080}
    assert {port["targetPort"] for port in MANIFESTS["Service"]["spec"]["ports"]} == set(ports)
    assert {probe["httpGet"]["port"] for name, probe in CONTAINER.items() if name.endswith("Probe")} == {"http"}
    assert [endpoint["port"] for endpoint in MANIFESTS["ServiceMonitor"]["spec"]["endpoints"]] == ["http"]


def test_a_pod_has_time_to_drain() -> None:
    drain_seconds = 10  # of `fade serve`
    assert POD["terminationGracePeriodSeconds"] > CONTAINER["lifecycle"]["preStop"]["sleep"]["seconds"] + drain_seconds


def test_nothing_secret_is_in_the_manifests() -> None:
    assert "Secret" not in MANIFESTS
    (store,) = CONTAINER["env"]
    assert store["name"] == "FADE_STORE" and not any("--store" in argument for argument in CONTAINER["args"])
    assert store["valueFrom"] == {"secretKeyRef": {"name": "fade-redis", "key": "url"}}


def test_the_rules_are_those_of_prometheus() -> None:
    made = runpy.run_path(str(FOLDER / "rules.py"))["prometheus_rule"]()
    assert (FOLDER / "rules.yaml").read_text("utf-8") == made, "run python deploy/kubernetes/rules.py"
