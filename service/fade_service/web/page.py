"""The dashboard's page and its files, which need nothing from elsewhere."""

from __future__ import annotations

import gzip
import hashlib
import mimetypes
from dataclasses import dataclass
from pathlib import Path

from fastapi import FastAPI
from fastapi.concurrency import run_in_threadpool
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

FILES = Path(__file__).parent / "static"

_POLICY = "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; object-src 'none'"

_HEADERS = {
    "Content-Security-Policy": _POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-cache",
    "Vary": "Accept-Encoding",
}


def add_page(app: FastAPI) -> None:
    """Serves the page at / and its files below /static."""
    files = _Files(FILES)

    @app.get("/", include_in_schema=False)
    async def page(request: Request) -> Response:
        return await files.answer("index.html", request)

    async def file(request: Request) -> Response:
        return await files.answer(request.path_params["name"], request)

    app.mount("/static", Starlette(routes=[Route("/{name:path}", file)]), "static")


@dataclass(frozen=True, slots=True)
class _File:
    content: bytes
    packed: bytes
    media_type: str
    etag: str


class _Files:
    """A folder's files from memory: a page asks for some thirty at once, in the process that answers Observe."""

    def __init__(self, folder: Path) -> None:
        self._paths = {path.relative_to(folder).as_posix(): path for path in folder.rglob("*") if path.is_file()}
        self._read: dict[str, _File] = {}

    async def answer(self, name: str, request: Request) -> Response:
        """The file, packed where the browser takes that; 304 where it has it already."""
        if name not in self._paths:
            raise HTTPException(404)
        if name not in self._read:
            self._read[name] = await run_in_threadpool(_read, self._paths[name])
        file = self._read[name]
        headers = {**_HEADERS, "ETag": file.etag}
        if file.etag in request.headers.get("if-none-match", ""):
            return Response(status_code=304, headers=headers)
        if "gzip" in request.headers.get("accept-encoding", ""):
            return Response(file.packed, headers={**headers, "Content-Encoding": "gzip"}, media_type=file.media_type)
        return Response(file.content, headers=headers, media_type=file.media_type)


def _read(path: Path) -> _File:
    content = path.read_bytes()
    etag = f'W/"{hashlib.sha256(content).hexdigest()[:16]}"'  # weak: the same for the packed file
    return _File(content, gzip.compress(content), mimetypes.guess_type(path.name)[0] or "text/plain", etag)
