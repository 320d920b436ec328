"""A server of bearer tokens, and the gate of a registry's front that asks for tokens: the challenge, GET /token with or without a login, and
POST /token with a password or a refresh token. A token has no content of its own. The server remembers the tokens that it has issued."""

import base64
import dataclasses
import re
import secrets
import threading
import time
import urllib.parse

from registry_proxy import Front, Handler, error_body

ACTIONS = {"GET": ("pull",), "HEAD": ("pull",), "DELETE": ("delete",)}
SERVICE = "registry of the test"


@dataclasses.dataclass
class Token:
    user: str
    scopes: dict  # repository -> the actions that were granted
    ends: float
    how: str  # GET, password or refresh


@dataclasses.dataclass
class User:
    """`grants`: a regular expression for repositories -> the actions that this user may do in them."""

    password: str
    grants: dict = dataclasses.field(default_factory=lambda: {".*": {"pull", "push", "delete"}})


class TokenHandler(Handler):
    """Requests for tokens."""

    def execute(self, front, rule, do):
        if do != "pass":
            if do == "delay":
                front.stopping.wait(rule.get("seconds", 1))
            elif do == "stall":
                front.stopping.wait()
            elif do == "status":
                return self.answer_rule(rule)
        path, _, query = self.path.partition("?")
        fields = urllib.parse.parse_qs(b"".join(self.body.pieces()).decode() if self.command == "POST" else query)
        if path != "/token" or self.command not in ("GET", "POST"):
            return self.answer(404, {}, {"details": "no such path"})
        status, body = front.tokens.grant(self.command, fields, self.headers.get("Authorization"))
        return self.answer(status, {}, body)


class TokenFront(Front):
    handler = TokenHandler

    def __init__(self, tokens, **options):
        self.tokens = tokens
        super().__init__(None, **options)


class Tokens:
    """The state of the server. `expires_in` is in seconds, or None if answers do not have it. `fields` are the names of a token in an answer."""

    def __init__(self, users, anonymous_pull=False, expires_in=300, fields=("token", "access_token"), tls=None, host="127.0.0.1", port=0):
        self.users, self.anonymous_pull, self.expires_in, self.fields = users, anonymous_pull, expires_in, fields
        self.issued, self.refused = [], 0
        self._tokens, self._refresh, self._lock = {}, {}, threading.Lock()
        self.front = TokenFront(self, tls=tls, host=host, port=port)

    def identity(self, user):
        """A refresh token, as a login leaves it in config.json as `identitytoken`."""
        token = "refresh-" + secrets.token_urlsafe(24)
        with self._lock:
            self._refresh[token] = user
        return token

    def revoke(self):
        with self._lock:
            self._tokens.clear()

    def secrets(self):
        """All secrets, which must not appear anywhere."""
        with self._lock:
            return [*self._tokens, *self._refresh, *(user.password for user in self.users.values())]

    # The server.

    def grant(self, method, fields, authorization):
        def field(name):
            return fields.get(name, [""])[0]
        how, user = "GET", None
        if method == "POST":
            how = {"password": "password", "refresh_token": "refresh"}.get(field("grant_type"))
            if not how or not field("client_id") or not field("service"):
                return 400, {"error": "invalid_request"}
            user = self._login(field("username"), field("password")) if how == "password" else self._refresh.get(field("refresh_token"))
        elif authorization and authorization.startswith("Basic "):
            name, _, password = base64.b64decode(authorization[6:]).decode().partition(":")
            user = self._login(name, password)
        elif not authorization and self.anonymous_pull:
            user = ""
        if user is None:
            self.refused += 1
            return 401, error_body("UNAUTHORIZED", "incorrect username or password")
        scopes = {}
        for scope in " ".join(fields.get("scope", [])).split():
            match = re.fullmatch(r"repository:(.+):([a-z,*]+)", scope)
            if match:
                scopes.setdefault(match[1], set()).update(self._allowed(user, match[1]) & set(match[2].split(",")))
        token = "bearer-" + secrets.token_urlsafe(24)
        with self._lock:
            self._tokens[token] = granted = Token(user, scopes, time.monotonic() + (self.expires_in or 60), how)
            self.issued.append(granted)
        body = {name: token for name in self.fields}
        if self.expires_in is not None:
            body["expires_in"] = self.expires_in
        if user and (field("offline_token") == "true" or field("access_type") == "offline" or how == "refresh"):
            body["refresh_token"] = field("refresh_token") or self.identity(user)
        return 200, body

    def _login(self, name, password):
        user = self.users.get(name)
        return name if user and user.password == password else None

    def _allowed(self, user, repository):
        if not user:
            return {"pull"}
        return set().union(*(actions for pattern, actions in self.users[user].grants.items() if re.fullmatch(pattern, repository)))

    # The gate.

    def check(self, method, path, headers, front):
        """Returns None if the request may pass. Otherwise returns status, headers and body of the refusal."""
        needed = _needed(method, path)
        authorization = headers.get("Authorization", "")
        error = ""
        if authorization.startswith("Bearer "):
            with self._lock:
                token = self._tokens.get(authorization[7:])
            if not token or token.ends < time.monotonic():
                error = "invalid_token"
            elif all(set(actions) <= token.scopes.get(repository, set()) for repository, actions in needed.items()):
                return None
            else:
                error = "insufficient_scope"
        # A node of the cluster knows this registry under another host name, and knows the token server under this host name too.
        host = headers.get("Host", front.name).rpartition(":")[0] or front.host
        challenge = f'Bearer realm="{front.url.partition(":")[0]}://{host}:{self.front.port}/token",service="{SERVICE}"'
        if needed:
            challenge += ',scope="' + " ".join(f"repository:{name}:{','.join(actions)}" for name, actions in needed.items()) + '"'
        if error:
            challenge += f',error="{error}"'
        return 401, {"WWW-Authenticate": challenge}, error_body("UNAUTHORIZED", "authentication required")


def _needed(method, path):
    """The actions that a request needs in each repository."""
    match = re.match(r"/v2/(.+?)/(?:manifests|blobs|tags|referrers)/", path)
    if not match:
        return {}
    needed = {match[1]: ACTIONS.get(method, ("pull", "push"))}
    source = urllib.parse.parse_qs(urllib.parse.urlsplit(path).query).get("from", [""])[0]
    if source and source != match[1]:
        needed[source] = ("pull",)
    return needed
