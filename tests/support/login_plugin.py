#!/usr/bin/env python3
"""A credential plugin for tests: makes a client certificate or a token that the API server of the real cluster accepts for SECONDS.

usage: login_plugin.py FOLDER SECONDS certificate|token    FOLDER: the folder of the cluster, with the keys in pki/

Each call adds a line to $MLK_TEST_CALLS: the process that asked, and the time. A certificate has no expirationTimestamp, so that only the
answer 401 of the server shows that the certificate has expired. A token has an expirationTimestamp.
"""

import base64
import datetime
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

LEEWAY = 60  # seconds for which the API server accepts a token of a service account after the token has expired


def openssl(*args, input=None):
    return subprocess.run(["openssl", *map(str, args)], input=input, check=True, capture_output=True, timeout=30).stdout


def certificate(pki, seconds, subject="/O=researchers/CN=researcher"):
    """(certificate, key) of this user, as PEM; without a subject, of the cluster's ordinary user."""
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "index").touch()
        (folder / "openssl.cnf").write_text(
            f"[req]\ndistinguished_name = name\n[name]\n[ca]\ndefault_ca = ca\n[ca]\ndatabase = {folder}/index\nnew_certs_dir = {folder}\nrand_serial = yes\n"
            "default_md = sha256\npolicy = policy\nx509_extensions = client\n[policy]\ncommonName = supplied\norganizationName = supplied\n"
            "[client]\nkeyUsage = digitalSignature\nextendedKeyUsage = clientAuth\n")
        openssl("req", "-new", "-config", folder / "openssl.cnf", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
                "-keyout", folder / "key", "-out", folder / "request", "-subj", subject)
        now = datetime.datetime.now(datetime.timezone.utc)
        start, end = (f"{when:%Y%m%d%H%M%SZ}" for when in (now - datetime.timedelta(minutes=1), now + datetime.timedelta(seconds=seconds)))
        openssl("ca", "-batch", "-notext", "-config", folder / "openssl.cnf", "-cert", pki / "ca.crt", "-keyfile", pki / "ca.key",
                "-in", folder / "request", "-out", folder / "crt", "-startdate", start, "-enddate", end)
        return (folder / "crt").read_text(), (folder / "key").read_text()


def coded(data):
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def raw_signature(der):
    """The two numbers of an ECDSA signature, 32 bytes each, as JSON Web Tokens have them."""
    numbers, at = [], 2
    for _ in range(2):
        length = der[at + 1]
        numbers.append(der[at + 2:at + 2 + length].lstrip(b"\0").rjust(32, b"\0"))
        at += 2 + length
    return b"".join(numbers)


def token(pki, seconds):
    """A token of the service account that $MLK_TEST_ACCOUNT describes, signed as the cluster signs them."""
    account = json.loads(os.environ["MLK_TEST_ACCOUNT"])
    now = int(time.time())
    claims = {"iss": "https://kubernetes.default.svc", "aud": ["https://kubernetes.default.svc"], "iat": now - 600, "nbf": now - 600, "exp": now + seconds - LEEWAY,
              "sub": f"system:serviceaccount:{account['namespace']}:{account['name']}",
              "kubernetes.io": {"namespace": account["namespace"], "serviceaccount": {"name": account["name"], "uid": account["uid"]}}}
    signed = ".".join(coded(json.dumps(part).encode()) for part in ({"alg": "ES256"}, claims))
    signature = openssl("dgst", "-sha256", "-sign", pki / "service-account.key", input=signed.encode())
    return f"{signed}.{coded(raw_signature(signature))}"


def main():
    folder, seconds, kind = pathlib.Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
    with open(os.environ["MLK_TEST_CALLS"], "a") as calls:
        calls.write(f"{os.getppid()} {time.time()}\n")
    asked = json.loads(os.environ["KUBERNETES_EXEC_INFO"])
    if kind == "certificate":
        status = dict(zip(("clientCertificateData", "clientKeyData"), certificate(folder / "pki", seconds)))
    else:
        end = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(seconds=seconds)
        status = {"token": token(folder / "pki", seconds), "expirationTimestamp": f"{end:%Y-%m-%dT%H:%M:%SZ}"}
    print(json.dumps({"kind": "ExecCredential", "apiVersion": asked["apiVersion"], "status": status}))


if __name__ == "__main__":
    main()
