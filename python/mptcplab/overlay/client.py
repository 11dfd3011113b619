"""Calls of the host controller, by hosts and by the operator."""

from __future__ import annotations

import http.client
import json
import os
import secrets
import time
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs, urlsplit

from mptcplab.errors import UsageError
from mptcplab.overlay.failure import OverlayFailed, OverlayMissing

#: The environment variable with the token, for those who want it on no command line.
TOKEN_VARIABLE = "MPTCPLAB_OVERLAY_TOKEN"
_TIMEOUT_S = 10.0
_FORM = "as `mptcplab overlay up` prints it: http://ADDRESS:PORT/?token=TOKEN"


@dataclass(frozen=True)
class HostControllerAddress:
    """Where a host controller is, and a token for it."""

    address: str
    port: int
    token: str

    @classmethod
    def parse(cls, url: str) -> HostControllerAddress:
        """Parses what `overlay up` prints. Raises UsageError."""
        try:
            parts = urlsplit(url)
            address, port = parts.hostname, parts.port
        except ValueError as error:
            raise UsageError(f"{url}: {error}; allowed: a URL {_FORM}") from None
        token = (parse_qs(parts.query).get("token") or [os.environ.get(TOKEN_VARIABLE, "")])[0]
        if parts.scheme != "http" or not address or port is None:
            raise UsageError(f"{url}: found no address; allowed: a URL {_FORM}")
        if not token:
            raise UsageError(f"{url}: found no token; allowed: a URL {_FORM}, or the token in {TOKEN_VARIABLE}")
        return cls(address, port, token)

    def __str__(self) -> str:
        return f"http://{self.address}:{self.port}/?token={self.token}"


def call(server: HostControllerAddress, method: str, **params: Any) -> Any:
    """Calls a method. Raises OverlayMissing if there is no answer, and OverlayFailed with the error
    of the host controller.
    """
    body = json.dumps({"jsonrpc": "2.0", "method": method, "params": params, "id": 1})
    headers = {
        "content-type": "application/json",
        "authorization": f"Bearer {server.token}",
        "x-mptcplab-nonce": secrets.token_urlsafe(16),
        "x-mptcplab-time": f"{time.time():.3f}",
    }
    place = f"{server.address}:{server.port}"
    connection = http.client.HTTPConnection(server.address, server.port, timeout=_TIMEOUT_S)
    try:
        connection.request("POST", "/", body, headers)
        answer = json.loads(connection.getresponse().read())
    except (OSError, http.client.HTTPException) as error:
        raise OverlayMissing(f"no host controller answers at {place}: {error}") from error
    except ValueError as error:
        raise no_host_controller(server) from error
    finally:
        connection.close()
    if isinstance(answer, dict) and "result" in answer:
        return answer["result"]
    try:
        problem = f"{method}: {answer['error']['message']} ({answer['error']['code']})"
    except (KeyError, TypeError):
        raise no_host_controller(server) from None
    raise OverlayFailed(problem)


def no_host_controller(server: HostControllerAddress) -> OverlayMissing:
    """Returns the error for an answer that is not one of a host controller."""
    return OverlayMissing(f"what answers at {server.address}:{server.port} is no host controller")
