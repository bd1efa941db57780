"""Whether the hub of Hugging Face can be asked: without a network its client would try again for a minute."""

import os
import socket
from importlib import import_module
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import getproxies

from askless.base.errors import ModelError
from askless.nets.weights import USUAL


def can_ask_hub() -> bool:
    """False where HF_HUB_OFFLINE says so, or where the name of the hub means nothing here (no network)."""
    if os.environ.get("HF_HUB_OFFLINE", "").strip().upper() in ("1", "ON", "YES", "TRUE"):
        return False
    if getproxies():  # which know names that this machine does not
        return True
    address = urlsplit(os.environ.get("HF_ENDPOINT", "") or "https://huggingface.co")
    try:
        socket.getaddrinfo(address.hostname, address.port or 443)
    except OSError:
        return False
    return True


def downloaded_before(owner: str, repository: str | None) -> Path:
    """The weights of a repository in the hub's cache on this machine; an error that says what to do where there are none."""
    hub = import_module("huggingface_hub")
    for name in USUAL if repository else ():
        found = hub.try_to_load_from_cache(repository, name)
        if isinstance(found, str):
            return Path(found)
    raise ModelError(
        f"{owner}: expected pretrained weights; the hub cannot be reached (no network, or HF_HUB_OFFLINE is set), "
        "and they were not downloaded before; pass weights=FILE, or use it once with a network"
    )
