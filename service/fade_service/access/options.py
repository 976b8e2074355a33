"""Access on the command line: the options of `fade serve`, and `fade token`. Importing this module imports no server."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fade_service.access.policy import Access


def add_access_options(serve: argparse.ArgumentParser) -> None:
    """Adds them to `fade serve`."""
    group = serve.add_argument_group("access (docs/security.md)")
    group.add_argument(
        "--tokens", type=Path, metavar="FILE", help="let in these bearer tokens only; read again when it changes (or FADE_TOKENS)"
    )
    group.add_argument("--tls-cert", type=Path, metavar="FILE", help="serve TLS on both ports with this certificate (PEM)")
    group.add_argument("--tls-key", type=Path, metavar="FILE", help="its private key")
    group.add_argument("--tls-client-ca", type=Path, metavar="FILE", help="ask clients for a certificate of this authority")
    group.add_argument(
        "--tls-allow-subject",
        action="extend",
        nargs="+",
        default=[],
        metavar="NAME",
        help="let in these common or alternative names only",
    )
    group.add_argument("--max-observations-per-second", type=float, metavar="N", help="of each project (default: any number)")
    group.add_argument("--max-runs-per-project", type=int, metavar="N", help="runs that exist (default: any number)")
    group.add_argument("--insecure-public", action="store_true", help="serve other machines without asking who they are")


def access_of(options: argparse.Namespace) -> Access:
    """What the options and the environment ask for.

    Raises:
        ValueError: They are wrong.
    """
    from fade_service.access.policy import Access
    from fade_service.access.quotas import Quotas
    from fade_service.access.tls import Tls
    from fade_service.access.tokens import Tokens

    if (options.tls_cert is None) != (options.tls_key is None):
        raise ValueError("TLS needs both --tls-cert and --tls-key")
    if options.tls_cert is None and (options.tls_client_ca is not None or options.tls_allow_subject):
        raise ValueError("client certificates need TLS: give --tls-cert and --tls-key too")
    tls = None
    if options.tls_cert is not None:
        subjects = frozenset(options.tls_allow_subject)
        tls = Tls(certificate=options.tls_cert, key=options.tls_key, client_ca=options.tls_client_ca, allowed_subjects=subjects)
    source = options.tokens or os.environ.get("FADE_TOKENS")
    return Access(
        tokens=Tokens(source) if source else None,
        tls=tls,
        quotas=Quotas(
            max_observations_per_second=options.max_observations_per_second, max_runs_per_project=options.max_runs_per_project
        ),
        insecure_public=options.insecure_public,
    )


def register_token(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Adds `token` to the `fade` command."""
    summary = "print a fresh token, and the line that lets it in"
    epilog = "The token is printed once and stored nowhere. exit codes: 0 done; 2 the command line is wrong"
    token = subparsers.add_parser("token", help=summary, description=f"{summary[0].upper()}{summary[1:]}.", epilog=epilog)
    token.add_argument("name", metavar="NAME", help="says in logs which token it is")
    token.add_argument("--project", required=True, help='the project that it opens; "-" for all')
    token.add_argument("--role", required=True, choices=("read", "write", "admin"), help="what it may do there")
    token.set_defaults(handler=_token)


def _token(options: argparse.Namespace) -> int:
    from fade_service.access.tokens import new_token

    try:
        token, entry = new_token(options.name, options.project, options.role)
    except ValueError as error:
        print(f"fade token: {str(error).removeprefix('tokens[0].')}", file=sys.stderr)
        return 2
    print(f"{token}\n{entry}")
    return 0
