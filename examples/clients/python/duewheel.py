"""A client of duewheel's HTTP API, and the check of its calls; with nothing but Python's standard library (3.9 or later)."""

import base64
import hashlib
import hmac
import http.client
import json
import time
import urllib.parse


class Refused(Exception):
    """duewheel said no, and would say no again: `status`, `code`, and the problem's text."""

    def __init__(self, status, problem):
        super().__init__(f"{status} {problem.get('code', '')}: {problem.get('detail') or problem.get('title', '')}")
        self.status, self.code, self.problem = status, problem.get("code"), problem


class Unavailable(Exception):
    """No answer after all tries. Whether the last one took effect is unknown; both calls here may be repeated later."""


class Client:
    """Places and cancels deadlines. Not to be shared between threads: each needs a connection of its own."""

    def __init__(self, url, token, wheel="orders", timeout=5.0, tries=4):
        parts = urllib.parse.urlsplit(url)
        make = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
        self._connection = make(parts.hostname, parts.port, timeout=timeout)
        self._base = f"{parts.path.rstrip('/')}/v1/wheels/{urllib.parse.quote(wheel, safe='')}/deadlines/"
        self._headers = {"authorization": f"Bearer {token}", "accept": "application/json"}
        self._tries = tries

    def enqueue(self, order, at, payload=None):
        """The order was placed: it is to be closed at `at`, in seconds since 1970. The same call again changes nothing."""
        body = {"at": round(at * 1000)}
        if payload is not None:
            body["payload"] = payload
        return self._call("PUT", order, body)

    def cancel(self, order):
        """The order was paid. A deadline that is unknown (then a late enqueue is refused) or has ended is no error: the answer says so."""
        try:
            return self._call("DELETE", order)
        except Refused as e:
            if e.code in ("absent", "ended"):
                return e.problem
            raise

    def close(self):
        self._connection.close()

    def _call(self, method, order, body=None):
        path = self._base + urllib.parse.quote(order, safe="")
        headers, data = dict(self._headers), None
        if body is not None:
            data = json.dumps(body).encode()
            headers["content-type"] = "application/json"
        wait = 0.1
        for attempt in range(1, self._tries + 1):
            try:
                self._connection.request(method, path, body=data, headers=headers)
                answer = self._connection.getresponse()
                status, after, text = answer.status, answer.getheader("retry-after", ""), answer.read()
            except (OSError, http.client.HTTPException) as e:
                # Also a kept connection that the server had closed: the next request opens a new one.
                self._connection.close()
                reason, after = repr(e), ""
            else:
                value = _object(text)
                if 200 <= status < 300:
                    return value
                if status not in (408, 429) and status < 500:
                    raise Refused(status, value)
                reason = f"status {status}"
            if attempt == self._tries:
                raise Unavailable(f"{method} {path}: {reason}")
            time.sleep(min(float(after), 5.0) if after.isdigit() else wait)
            wait *= 2


def _object(text):
    try:
        value = json.loads(text)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


class Forged(Exception):
    """A call that duewheel did not make, or made too long ago. Answer 401 and do nothing."""


class Verifier:
    """Checks calls by Standard Webhooks 1.0. Several secrets are valid at once while one replaces another."""

    def __init__(self, *secrets, tolerance=300):
        self._keys = [_key(secret) for secret in secrets]
        if not self._keys:
            raise ValueError("no secret")
        self._tolerance = tolerance

    def verify(self, headers, body, now=None):
        """The message of a call: `headers` is anything with `get`, `body` the bytes as they came, before any parsing."""
        message_id, timestamp, signatures = (
            headers.get(name) or "" for name in ("webhook-id", "webhook-timestamp", "webhook-signature")
        )
        if not (message_id and timestamp.isascii() and timestamp.isdigit() and len(timestamp) <= 12):
            raise Forged("no webhook-id or webhook-timestamp")
        if abs((time.time() if now is None else now) - int(timestamp)) > self._tolerance:
            raise Forged("the timestamp is too far from now")
        signed = f"{message_id}.{timestamp}.".encode("latin-1") + body
        expected = [b"v1," + base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()) for key in self._keys]
        given = [one.encode("latin-1") for one in signatures.split(" ")]
        # Every pair is compared, each in constant time.
        if not any([hmac.compare_digest(a, b) for a in expected for b in given]):
            raise Forged("no signature fits")
        return json.loads(body)


def _key(secret):
    if not secret.startswith("whsec_"):
        raise ValueError("a secret begins with whsec_")
    key = base64.b64decode(secret[len("whsec_") :], validate=True)
    if not 24 <= len(key) <= 64:
        raise ValueError("a secret holds 24 to 64 bytes")
    return key
