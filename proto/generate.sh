#!/usr/bin/env bash
# Regenerates proto/fade_proto from proto/fade. Run by `make proto`.
#
# The Python code comes from grpcio-tools 1.62.3 (gencode 4.25), the newest generator whose output still imports on every
# protobuf runtime from 4.25 to 7.x; it needs an environment of its own. The type stubs come from mypy-protobuf.
# protoc writes `from fade.v1 import`; the packages live under fade_proto, so that line is rewritten (docs/adr/0002).
set -euo pipefail
cd "$(dirname "$0")"
generator=${GENERATOR_PYTHON:?the Python of an environment with grpcio-tools==1.62.3}
plugins=${PLUGIN_DIR:?the folder that holds protoc-gen-mypy and protoc-gen-mypy_grpc}
out=${OUT_DIR:-.}

staging=$(mktemp -d)
trap 'rm -rf "$staging"' EXIT
"$generator" -m grpc_tools.protoc -I. \
  --plugin=protoc-gen-mypy="$plugins/protoc-gen-mypy" --python_out="$staging" --mypy_out=quiet:"$staging" \
  fade/v1/*.proto fade/storage/v1/*.proto
"$generator" -m grpc_tools.protoc -I. \
  --plugin=protoc-gen-mypy_grpc="$plugins/protoc-gen-mypy_grpc" \
  --grpc_python_out="$staging" --mypy_grpc_out=quiet:"$staging" fade/v1/scheduler.proto
"$generator" -m grpc_tools.protoc -I. --descriptor_set_out="$out/fade_proto/fade_v1.binpb" --include_imports fade/v1/*.proto
find "$staging" -type f -exec sed -i -e 's/^from fade\./from fade_proto./' -e 's/\bfade\.\(storage\.\)\?v1\.\([a-z_]*_pb2\)\b/fade_proto.\1v1.\2/g' \
  -e 's/^import fade\./import fade_proto./' {} +
for package in v1 storage; do
  rm -rf "$out/fade_proto/$package"
  cp -r "$staging/fade/$package" "$out/fade_proto/$package"
done
printf '"""Python code generated from proto/fade; regenerate with `make proto`, never edit."""\n' >"$out/fade_proto/__init__.py"
printf '"""Package fade.v1 of the contract."""\n' >"$out/fade_proto/v1/__init__.py"
printf '"""What the server keeps."""\n' | tee "$out/fade_proto/storage/__init__.py" >"$out/fade_proto/storage/v1/__init__.py"
touch "$out/fade_proto/py.typed"
