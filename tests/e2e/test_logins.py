"""Compares mlk with client-go: which server, user, namespace and way to log in each of them reads from kubeconfigs."""

import base64
import json
import os
import pathlib
import random
import subprocess

import pytest

import mlk

SEED = int(os.environ.get("MLK_LOGIN_SEED") or 20261122)
CASES = 300
GROUP = "client.authentication.k8s.io"
# No server listens at these ports: what mlk prints must not need an answer.
SERVERS = ["https://127.0.0.1:1", "https://127.0.0.1:2/", "https://127.0.0.1:3/clusters/a/", "https://localhost:4/?q=1", "http://127.0.0.1:5", ""]


def jwt(claims):
    parts = [base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in ({"alg": "none"}, claims)]
    return ".".join(parts + ["c2ln"])


@pytest.fixture(scope="module")
def key_pair(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pair")
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2", "-subj", "/CN=me",
                    "-keyout", folder / "me.key", "-out", folder / "me.crt"], check=True, capture_output=True, timeout=60)
    return [base64.b64encode((folder / name).read_bytes()).decode() for name in ("me.crt", "me.key")]


class Generator:
    """Sets of kubeconfig files. Most of the files are valid. They use only few names, so that names collide."""

    def __init__(self, seed, key_pair):
        self.random = random.Random(seed)
        self.key_pair = key_pair

    def maybe(self, chance):
        return self.random.random() < chance

    def cluster(self):
        cluster = {"server": self.random.choices(SERVERS, [6, 4, 4, 2, 0.5, 0.2])[0]}
        if self.maybe(0.5):
            cluster["insecure-skip-tls-verify"] = True
        if self.maybe(0.1):
            cluster["proxy-url"] = self.random.choice(["http://127.0.0.1:9", "socks5://127.0.0.1:9", "ftp://127.0.0.1:9"])
        if self.maybe(0.2):
            cluster["extensions"] = [{"name": f"{GROUP}/exec", "extension": {"audience": "x"}}]
        return cluster

    def plugin(self):
        plugin = {"apiVersion": f"{GROUP}/{self.random.choices(['v1', 'v1beta1', 'v1alpha1', ''], [8, 8, 1, 0.5])[0]}",
                  "command": self.random.choice(["no-such-plugin", "./no/such", "../no-such", "/no/such/plugin", "no/such"])}
        if self.maybe(0.8):
            plugin["interactiveMode"] = self.random.choices(["Never", "IfAvailable", "Always", "Perhaps"], [8, 8, 3, 1])[0]
        if self.maybe(0.4):
            plugin["provideClusterInfo"] = self.maybe(0.5)
        if self.maybe(0.3):
            plugin["args"] = ["get-token", "--fast"]
        if self.maybe(0.3):
            plugin["env"] = [{"name": "REGION", "value": "eu"}] + ([{"name": "", "value": "x"}] if self.maybe(0.1) else [])
        return plugin

    def provider(self):
        name = self.random.choices(["oidc", "gcp", "azure", "openstack", "own"], [8, 1, 1, 1, 1])[0]
        config = {"idp-issuer-url": "https://127.0.0.1:1", "client-id": "mlk", "id-token": jwt({"exp": 4070908800})}
        if self.maybe(0.15):
            del config[self.random.choice(["idp-issuer-url", "client-id"])]
        return {"name": name, "config": config}

    def user(self):
        ways = {"token": lambda: {"token": self.random.choice(["t", jwt({"exp": 4070908800})])},
                "file": lambda: {"tokenFile": self.random.choices(["tokens/good", "tokens/empty", "tokens/gone"], [6, 1, 1])[0]},
                "basic": lambda: {"username": "me", "password": "pw"},
                "password": lambda: {"password": "pw"},
                "certificate": lambda: {"client-certificate-data": self.key_pair[0], "client-key-data": self.key_pair[1]},
                "half": lambda: {"client-certificate-data": self.key_pair[0]},
                "plugin": lambda: {"exec": self.plugin()},
                "provider": lambda: {"auth-provider": self.provider()},
                "as": lambda: {"as": "boss", "as-groups": ["a"]},
                "groups": lambda: {"as-groups": ["a"]}}
        user = {}
        for way in self.random.choices(list(ways), [6, 6, 4, 1, 6, 0.5, 14, 5, 2, 0.5], k=self.random.choices([0, 1, 2, 3], [1, 12, 5, 1])[0]):
            user.update(ways[way]())
        return user

    def entries(self, kind, make):
        names = self.random.sample(["a", "b", "c"], self.random.choices([0, 1, 2, 3], [1, 2, 3, 6])[0])
        return [{"name": name, kind: make()} for name in names]

    def context(self):
        context = {"cluster": self.random.choice("abc")}
        if self.maybe(0.9):
            context["user"] = self.random.choice("abc")
        if self.maybe(0.5):
            context["namespace"] = self.random.choice(["team", "other"])
        return context

    def files(self, folder):
        """Writes the files and returns their paths in order. One of the files may be missing."""
        paths = []
        for i in range(self.random.randint(2, 4)):
            place = folder / f"f{i}"
            (place / "tokens").mkdir(parents=True)
            (place / "tokens" / "good").write_text(" from-file\n")
            (place / "tokens" / "empty").write_text("")
            config = {"apiVersion": "v1", "kind": "Config", "clusters": self.entries("cluster", self.cluster),
                      "users": self.entries("user", self.user), "contexts": self.entries("context", self.context)}
            if self.maybe(0.8):
                config["current-context"] = self.random.choices(["a", "b", "c", ""], [4, 4, 4, 1])[0]
            if self.maybe(0.03):
                config["users"] += config["users"][:1]
            paths.append(place / "config")
            if not self.maybe(0.05):
                paths[-1].write_text(json.dumps(config) if self.maybe(0.98) else "clusters: [")
        return paths

    def question(self, folder):
        paths = self.files(folder)
        return {"files": [str(path) for path in paths], "context": self.random.choice(["", "", "", "a"]),
                "namespace": self.random.choice(["", "", "", "mine"])}


def ask_client_go(kubectl, questions):
    program = pathlib.Path(kubectl()).parent / "kubernetes"
    result = mlk.run(program, "logins", check=0, input="".join(json.dumps(question) + "\n" for question in questions))
    answers = [json.loads(line) for line in result.stdout.splitlines()]
    for answer in answers:  # the REST client of client-go drops the query of the address
        answer["server"] = answer["server"].split("?")[0].rstrip("/")
    return answers


def ask_mlk(question, env):
    flags = [flag for name in ("context", "namespace") if question[name] for flag in (f"--{name}", question[name])]
    result = mlk.run(mlk.MLK, "context", "-o", "json", *flags, env={**env, "KUBECONFIG": ":".join(question["files"])})
    if not result.stdout:
        return {"error": result.stderr}
    told = result.json()
    assert result.code == 4 and told["version"] is None and told["allowed"] is None and told["reason"], result
    return {"server": told["server"], "user": told["user"], "namespace": told["namespace"], "way": told["login"]["way"],
            "plugin": told["login"]["plugin"] or "", "error": ""}


def agrees(ours, theirs):
    """Whether mlk and client-go agree. mlk may refuse a kubeconfig that client-go accepts only for the reasons that mlk-context(1) names."""
    if theirs["error"] or ours["error"]:
        unread = theirs["server"].startswith("http:")  # in this case client-go does not read the user's entry
        stricter = theirs["way"] == "none" and (unread or "names the user" in ours["error"])
        return bool(theirs["error"] and ours["error"]) or stricter
    return ours == theirs


@pytest.mark.usefixtures("real")
def test_mlk_understands_three_hundred_kubeconfigs_as_client_go_does(kubectl, key_pair, tmp_path):
    generator = Generator(SEED, key_pair)
    questions = [generator.question(tmp_path / str(i)) for i in range(CASES)]
    env = {"HOME": str(tmp_path), "NO_PROXY": "*", "XDG_CONFIG_HOME": str(tmp_path), "XDG_STATE_HOME": str(tmp_path)}
    answers = ask_client_go(kubectl, questions)
    assert len(answers) == CASES
    for i, (question, theirs) in enumerate(zip(questions, answers)):
        ours = ask_mlk(question, env)
        assert agrees(ours, theirs), f"seed {SEED}, case {i}: {json.dumps(question)}\nmlk: {ours}\nclient-go: {theirs}"
    # Most of the cases are valid, and every way to log in is among them. Otherwise the comparison would prove little.
    ways = [answer["way"] for answer in answers if not answer["error"]]
    assert len(ways) > CASES / 3
    assert {"none", "token", "token file", "basic", "client certificate", "exec plugin", "oidc"} <= set(ways)
