"""The contract keeps its rules: names, comments, and that the generated code is of these files."""

from __future__ import annotations

import re
import subprocess
import sys
import venv
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from google.protobuf import descriptor_pb2, json_format
from google.rpc import error_details_pb2 as google_details
from google.rpc import status_pb2 as google_status

import fade_proto
from fade_proto.v1 import error_details_pb2, observation_pb2, run_pb2, scheduler_pb2

ROOT = Path(__file__).parents[2]
PROTO = ROOT / "proto"
MODULES = (scheduler_pb2, run_pb2, observation_pb2, error_details_pb2)

STANDARD = {"CreateRun": "Run", "GetRun": "Run", "UpdateRun": "Run", "DeleteRun": "Empty"}
"""Methods that return the resource or nothing (AIP-131 to 135); every other one has its own response (docs/adr/0004)."""

WIRE_COPIES = {"Status", "ErrorInfo", "BadRequest", "RetryInfo"}
"""Messages whose names and fields are google.rpc's."""


def files() -> list[descriptor_pb2.FileDescriptorProto]:
    """The checked-in descriptors of fade.v1."""
    folder = Path(fade_proto.__file__).parent
    every = descriptor_pb2.FileDescriptorSet.FromString((folder / "fade_v1.binpb").read_bytes())
    return [file for file in every.file if file.package == "fade.v1"]


def messages(nested: Any = None) -> Iterator[descriptor_pb2.DescriptorProto]:
    """All messages, nested ones too."""
    for message in [item for file in files() for item in file.message_type] if nested is None else nested:
        yield message
        yield from messages(message.nested_type)


def enums() -> Iterator[descriptor_pb2.EnumDescriptorProto]:
    """All enums, nested ones too."""
    for file in files():
        yield from file.enum_type
    for message in messages():
        yield from message.enum_type


FIELDS = [(message.name, field) for message in messages() for field in message.field]


def test_files_stand_where_their_package_says() -> None:
    assert {file.name for file in files()} == {f"fade/v1/{module.DESCRIPTOR.name.rpartition('/')[2]}" for module in MODULES}
    assert all(file.syntax == "proto3" and (PROTO / file.name).exists() for file in files())


def test_the_generated_code_is_of_the_checked_in_descriptors() -> None:
    described = {file.name: file for file in files()}
    for module in MODULES:
        generated = descriptor_pb2.FileDescriptorProto()
        module.DESCRIPTOR.CopyToProto(generated)
        expected = described[module.DESCRIPTOR.name]
        for message in messages(expected.message_type):
            for field in message.field:
                field.ClearField("json_name")  # the compiler writes it into a set, not into generated code
        assert generated == expected


def test_the_service_and_its_messages_are_named_after_its_methods() -> None:
    (service,) = [service for file in files() for service in file.service]
    assert service.name == "SchedulerService"
    for method in service.method:
        assert re.fullmatch(r"([A-Z][a-z]+)+", method.name)
        assert method.input_type == f".fade.v1.{method.name}Request"
        assert method.output_type.rpartition(".")[2] == STANDARD.get(method.name, f"{method.name}Response")
        assert not method.client_streaming and not method.server_streaming
    assert {method.name for method in service.method} >= set(STANDARD)


def test_enum_values_carry_their_prefix_and_zero_is_unspecified() -> None:
    for enum in enums():
        prefix = re.sub(r"(?<!^)(?=[A-Z])", "_", enum.name).upper() + "_"
        assert enum.value[0].name == f"{prefix}UNSPECIFIED" and enum.value[0].number == 0
        assert all(value.name.startswith(prefix) for value in enum.value)
        assert [value.number for value in enum.value] == list(range(len(enum.value)))


def test_fields_are_snake_case_and_no_integer_is_unsigned() -> None:
    unsigned = (
        {field.TYPE_UINT32, field.TYPE_UINT64, field.TYPE_FIXED32, field.TYPE_FIXED64} if (field := FIELDS[0][1]) else set()
    )
    for message, field in FIELDS:
        assert re.fullmatch(r"[a-z]+([0-9]*_[a-z0-9]+)*", field.name), f"{message}.{field.name}"
        assert field.type not in unsigned, f"{message}.{field.name}"


def test_times_durations_and_entropies_say_their_unit() -> None:
    for message, field in FIELDS:
        name = f"{message}.{field.name}"
        if field.type_name.endswith(".Timestamp"):
            assert field.name.endswith("_time"), name
        if "entropy" in field.name and field.type == field.TYPE_DOUBLE:
            assert field.name.endswith(("_nats", "_fraction")), name
        assert not field.name.endswith(("_ms", "_sec", "_at", "_ts")), name


def test_message_names_are_camel_case_and_requests_name_their_resource_first() -> None:
    for message in messages():
        assert re.fullmatch(r"[A-Z][A-Za-z]+", message.name)
        if message.name.endswith("Request") and message.name not in WIRE_COPIES:
            first = next(field.name for field in message.field if field.number == 1)
            assert first in ("name", "parent", "run"), message.name


def undocumented(text: str) -> list[str]:
    """Declarations of a proto file that no comment stands before."""
    kinds = r"(message|enum|service|rpc|oneof)\s"
    fields = r"(repeated |optional |map<)?[\w.<>, ]+ \w+ = \d+;"
    values = r"[A-Z_0-9]+ = \d+;"
    declaration = re.compile(rf"\s*({kinds}|{fields}|{values})")
    lines = text.splitlines()
    return [
        line
        for before, line in zip(["", *lines], lines, strict=False)
        if declaration.match(line) and not before.strip().startswith("//")
    ]


@pytest.mark.parametrize("path", sorted(PROTO.glob("fade/**/*.proto")), ids=lambda path: path.name)
def test_everything_is_documented(path: Path) -> None:
    assert undocumented(path.read_text()) == []


def test_the_check_for_comments_sees_what_has_none() -> None:
    assert undocumented("message A {\n  int32 b = 1;\n}\n") == ["message A {", "  int32 b = 1;"]


def test_error_details_are_wire_identical_to_googles() -> None:
    info = google_details.ErrorInfo(reason="R", domain="fade", metadata={"a": "b"})
    bad = google_details.BadRequest(field_violations=[{"field": "rows.rewards[1]", "description": "d"}])
    retry = google_details.RetryInfo(retry_delay={"seconds": 2, "nanos": 3})
    status = google_status.Status(code=3, message="m")
    for detail in (info, bad, retry):
        status.details.add().Pack(detail)
    for theirs in (info, bad, retry, status):
        ours = getattr(error_details_pb2, theirs.DESCRIPTOR.name)
        for field in ours.DESCRIPTOR.fields:
            other = theirs.DESCRIPTOR.fields_by_name[field.name]
            assert (field.number, field.type) == (other.number, other.type)
        read = ours.FromString(theirs.SerializeToString())
        assert json_format.MessageToDict(read) == json_format.MessageToDict(theirs)
        assert type(theirs).FromString(read.SerializeToString()) == theirs


@pytest.mark.heavy
@pytest.mark.timeout(600)
def test_generating_again_changes_nothing(tmp_path: Path) -> None:
    venv.create(tmp_path / "generator", with_pip=True)
    python = tmp_path / "generator/bin/python"
    install = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "grpcio-tools==1.62.3", "setuptools<81"]
    subprocess.run(install, check=True)
    out = tmp_path / "out"
    (out / "fade_proto").mkdir(parents=True)
    environment = {"GENERATOR_PYTHON": str(python), "PLUGIN_DIR": str(Path(sys.executable).parent), "OUT_DIR": str(out)}
    subprocess.run([PROTO / "generate.sh"], check=True, env={"PATH": "/usr/bin:/bin", **environment})
    made = {path.relative_to(out): path.read_bytes() for path in out.rglob("*") if path.is_file()}
    assert len(made) > 10
    for path, content in made.items():
        if path.suffix != ".pyi":  # the stubs' generator is not pinned
            assert (PROTO / path).read_bytes() == content, path
