"""An identity provider on loopback that authenticates the person a test sets: OpenID Connect and GitHub.

It follows the protocols like a real one: a code works once and with the verifier of its challenge, the ID token is
signed, and userinfo and e-mail addresses are given to the bearer of the access token.
"""

import base64
import hashlib
import json
import secrets
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import jwt
from cryptography.hazmat.primitives.asymmetric import rsa

CLIENT_ID, CLIENT_SECRET = "octoadmin", "the client's secret"


class Provider:
    def __init__(self) -> None:
        # The person who is signed in at the provider.
        self.person: dict[str, Any] = {}
        # Claims of the ID token that differ from userinfo.
        self.id_token_claims: dict[str, Any] = {}
        self.refuses = False
        self.asked: list[dict[str, str]] = []
        self.key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        self.codes: dict[str, dict[str, str]] = {}
        self.tokens: set[str] = set()
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.server_port}"

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        provider = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_: Any) -> None:
                pass

            def do_GET(self) -> None:
                parts = urlsplit(self.path)
                query = {name: values[0] for name, values in parse_qs(parts.query).items()}
                if parts.path in ("/authorize", "/login/oauth/authorize"):
                    self._redirect(provider.authorize(query))
                elif parts.path == "/.well-known/openid-configuration":
                    self._json(provider.configuration())
                elif parts.path == "/jwks":
                    self._json({"keys": [provider.public_key()]})
                elif self.headers.get("Authorization", "").rpartition(" ")[2] not in provider.tokens:
                    self._json({"error": "invalid_token"}, status=401)
                elif parts.path in ("/userinfo", "/api/v3/user"):
                    self._json({name: value for name, value in provider.person.items() if name != "emails"})
                elif parts.path == "/api/v3/user/emails":
                    self._json(provider.person.get("emails", []))
                else:
                    self._json({}, status=404)

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"])).decode()
                form = {name: values[0] for name, values in parse_qs(body).items()}
                answer = provider.exchange(form)
                self._json(answer or {"error": "invalid_grant"}, status=200 if answer else 400)

            def _json(self, value: Any, *, status: int = 200) -> None:
                data = json.dumps(value).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def _redirect(self, url: str) -> None:
                self.send_response(302)
                self.send_header("Location", url)
                self.send_header("Content-Length", "0")
                self.end_headers()

        return Handler

    def configuration(self) -> dict[str, Any]:
        return {
            "issuer": self.url,
            "authorization_endpoint": f"{self.url}/authorize",
            "token_endpoint": f"{self.url}/token",
            "userinfo_endpoint": f"{self.url}/userinfo",
            "jwks_uri": f"{self.url}/jwks",
            "token_endpoint_auth_methods_supported": ["client_secret_post"],
        }

    def public_key(self) -> dict[str, Any]:
        return {**jwt.algorithms.RSAAlgorithm.to_jwk(self.key.public_key(), as_dict=True), "kid": "1", "use": "sig"}

    def authorize(self, query: dict[str, str]) -> str:
        assert query["client_id"] == CLIENT_ID
        self.asked.append(query)
        if self.refuses:
            answer = {"error": "access_denied", "state": query["state"]}
        else:
            code = secrets.token_hex(8)
            self.codes[code] = query
            answer = {"code": code, "state": query["state"]}
        return f"{query['redirect_uri']}?{urlencode(answer)}"

    def exchange(self, form: dict[str, str]) -> dict[str, Any] | None:
        begun = self.codes.pop(form.get("code", ""), None)
        if begun is None or (form["client_id"], form["client_secret"]) != (CLIENT_ID, CLIENT_SECRET):
            return None
        challenge = hashlib.sha256(form["code_verifier"].encode()).digest()
        if base64.urlsafe_b64encode(challenge).decode().rstrip("=") != begun["code_challenge"]:
            return None
        token = secrets.token_hex(16)
        self.tokens.add(token)
        claims = {
            "iss": self.url, "aud": CLIENT_ID, "iat": int(time.time()), "exp": int(time.time()) + 60,
            **{name: value for name, value in self.person.items() if name != "emails"}, **self.id_token_claims,
        }  # fmt: skip
        id_token = jwt.encode(claims, self.key, algorithm="RS256", headers={"kid": "1"})
        return {"access_token": token, "token_type": "bearer", "id_token": id_token}


@contextmanager
def stand_in_provider() -> Iterator[Provider]:
    provider = Provider()
    thread = threading.Thread(target=provider.server.serve_forever, daemon=True)
    thread.start()
    try:
        yield provider
    finally:
        provider.server.shutdown()
        provider.server.server_close()
        thread.join()
