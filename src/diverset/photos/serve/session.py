"""Who may use a server with a token: the header, the cookie, and a limit on wrong tokens.

A browser gets a cookie for the token in a link. It holds the time until which it is valid, signed
with a key of this process: reading it does not reveal the token, and it ends with the server.
"""

from __future__ import annotations

import hmac
import ipaddress
import re
import secrets
import time

from cachetools import TTLCache

SECONDS = 7 * 24 * 3600  # that a cookie is valid
MAX_WRONG = 10  # tokens per address and minute
MAX_ADDRESSES = 10_000
TOKEN = r"[A-Za-z0-9\-._~+/]+=*"  # b64token of RFC 6750
BEARER = re.compile(rf"bearer +({TOKEN})", re.IGNORECASE)


def bearer_token(header: str) -> str | None:
    """The token in an Authorization header, as RFC 6750 says.

    >>> bearer_token("bearer abc="), bearer_token("abc"), bearer_token("Basic abc")
    ('abc=', None, None)
    """
    match = BEARER.fullmatch(header.strip(" "))
    return match[1] if match else None


class Sessions:
    """Checks tokens, and issues and checks cookies."""

    def __init__(self, token: str) -> None:
        self._token, self._key = token.encode(), secrets.token_bytes(32)
        self._wrong: TTLCache[str, int] = TTLCache(MAX_ADDRESSES, ttl=60)

    def is_token(self, value: str, address: str) -> bool:
        """Whether this is the token; wrong ones are counted for an address."""
        same = hmac.compare_digest(value.encode("utf-8", "replace"), self._token)
        if not same:
            self._wrong[network(address)] = self._wrong.get(network(address), 0) + 1
        return same

    def is_blocked(self, address: str) -> bool:
        """Whether an address has sent too many wrong tokens to be asked again."""
        return bool(self._wrong.get(network(address), 0) >= MAX_WRONG)

    def new_cookie(self) -> str:
        return self._signed(int(time.time()) + SECONDS)

    def is_cookie(self, value: str) -> bool:
        """Whether this server has issued this cookie and it is still valid."""
        until = value.partition(".")[0]
        if not re.fullmatch("[0-9]{1,12}", until) or int(until) < time.time():
            return False
        expected = self._signed(int(until)).encode()
        return hmac.compare_digest(value.encode("utf-8", "replace"), expected)

    def _signed(self, until: int) -> str:
        return f"{until}.{hmac.digest(self._key, str(until).encode(), 'sha256').hex()}"


def network(address: str) -> str:
    """An IPv4 address, or the network of an IPv6 address, of which everybody has a whole one.

    >>> network("192.0.2.1"), network("2001:db8::1:2")
    ('192.0.2.1', '2001:db8::/64')
    """
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return address
    return address if parsed.version == 4 else str(ipaddress.ip_network((parsed, 64), strict=False))
