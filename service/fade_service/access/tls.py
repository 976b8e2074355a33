"""TLS for both ports, with certificates that may be replaced while the server runs, and who client certificates name."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import grpc

from fade_service.access.files import Reloaded

T = TypeVar("T")

_GRPC_NAMES = ("x509_common_name", "x509_subject_alternative_name")


@dataclass(frozen=True, slots=True, kw_only=True)
class Tls:
    """The files, all PEM.

    Attributes:
        certificate: The server's certificate, followed by those that it hangs on.
        key: Its private key, without a passphrase.
        client_ca: Clients must have a certificate that hangs on one of these; None asks for none.
        allowed_subjects: One of them must be the common name or an alternative name in it; empty allows all.

    Raises:
        ValueError: Subjects are allowed, but no client certificate is asked for.
    """

    certificate: Path
    key: Path
    client_ca: Path | None = None
    allowed_subjects: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        if self.allowed_subjects and self.client_ca is None:
            raise ValueError("subjects are allowed, but no client certificate is asked for: give --tls-client-ca too")

    def grpc_credentials(self) -> grpc.ServerCredentials:
        """For gRPC's port; each handshake uses the files as they are then.

        Raises:
            ValueError: The files cannot be used.
        """
        configuration = self._reloaded(self._grpc_configuration)
        return grpc.dynamic_ssl_server_credentials(configuration.get(), configuration.get, self.client_ca is not None)

    def http_context(self) -> ssl.SSLContext:
        """For HTTP's port; each handshake uses the files as they are then.

        Raises:
            ValueError: The files cannot be used.
        """
        context = self._reloaded(self._context)

        def use_newest(connection: ssl.SSLObject, name: str | None, first: ssl.SSLContext) -> None:
            connection.context = context.get()  # OpenSSL calls this in every handshake, with a server name or without

        served = context.get()
        served.sni_callback = use_newest
        return served

    def _reloaded(self, load: Callable[[], T]) -> Reloaded[T]:
        files = [file for file in (self.certificate, self.key, self.client_ca) if file is not None]
        try:
            return Reloaded(files, load)
        except OSError as error:
            raise ValueError(f"TLS cannot be served with {', '.join(map(str, files))}: {error}") from None

    def _context(self) -> ssl.SSLContext:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(self.certificate, self.key, password=lambda: "")  # never asks at the terminal
        if self.client_ca is not None:
            context.load_verify_locations(self.client_ca)
            context.verify_mode = ssl.CERT_REQUIRED
        return context

    def _grpc_configuration(self) -> grpc.ServerCertificateConfiguration:
        self._context()  # gRPC would take a certificate and a key that do not fit, and fail in each handshake
        roots = None if self.client_ca is None else self.client_ca.read_bytes()
        return grpc.ssl_server_certificate_configuration([(self.key.read_bytes(), self.certificate.read_bytes())], roots)


def subjects_of_call(auth_context: Mapping[str, Any]) -> frozenset[str]:
    """The common name and the alternative names in the client certificate of a gRPC call."""
    names = [name for key in _GRPC_NAMES for name in auth_context.get(key, ())]
    return frozenset(name.decode("utf-8", "replace") for name in names) - {""}


def subjects_of_connection(certificate: Mapping[str, Any] | None) -> frozenset[str]:
    """The same of a certificate as the ssl module shows it."""
    if not certificate:
        return frozenset()
    common = [value for part in certificate.get("subject", ()) for key, value in part if key == "commonName"]
    alternative = [value for _, value in certificate.get("subjectAltName", ())]
    return frozenset(common + alternative) - {""}
