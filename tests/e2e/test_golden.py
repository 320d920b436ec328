"""A real API server accepts every golden object with all its fields. It accepts the pods also where Pod Security is "restricted"."""

import json
import secrets

import pytest

import mlk

GOLDEN = sorted((mlk.ROOT / "tests/golden").glob("*.json"))
NEEDS_MORE = {"unrestricted"}  # these golden files ask for volumes that Pod Security refuses


@pytest.fixture(scope="module")
def create(real_session):
    """A function that sends an object to the API server (dry run), in a namespace that enforces Pod Security."""
    name = f"mlk-golden-{secrets.token_hex(3)}"  # test processes that run side by side have a namespace each
    namespace = {"apiVersion": "v1", "kind": "Namespace",
                 "metadata": {"name": name, "labels": {"pod-security.kubernetes.io/enforce": "restricted"}}}
    real_session.kubectl_admin("apply", "-f", "-", input=json.dumps(namespace))
    # Pods are refused until the namespace has its service account.
    mlk.wait_until(lambda: real_session.kubectl_admin("get", "serviceaccount", "default", "-n", name, check=None).code == 0,
                   "the namespace has a service account")

    def dry_run(things, check=None):
        for thing in things:
            thing["metadata"]["namespace"] = name
        return real_session.kubectl_admin("create", "--dry-run=server", "--validate=strict", "-o", "json", "-f", "-",
                                          check=check, input=json.dumps({"apiVersion": "v1", "kind": "List", "items": things}))

    yield dry_run
    real_session.kubectl_admin("delete", "namespace", name, "--wait=false")


def test_there_are_golden_files():
    assert len(GOLDEN) >= 7


@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: path.stem)
def test_the_api_server_accepts_every_field_of_the_golden_objects(create, path):
    sent = json.loads(path.read_text())["items"]
    answers = json.loads("[" + create(sent, check=0).stdout.replace("}\n{", "},\n{") + "]")
    assert [thing["metadata"]["name"] for thing in answers] == [thing["metadata"]["name"] for thing in sent]
    for thing, answer in zip(sent, answers, strict=True):
        assert not dropped(thing, answer), thing["metadata"]["name"]


@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: path.stem)
def test_the_level_restricted_of_pod_security_accepts_golden_pods_unless_they_ask_for_forbidden_volumes(create, path):
    templates = [(thing["metadata"]["name"], thing["spec"]["template"]) for thing in json.loads(path.read_text())["items"] if thing["kind"] == "Job"]
    assert templates
    result = create([{"apiVersion": "v1", "kind": "Pod", "spec": template["spec"], "metadata": {"name": name, "labels": template["metadata"]["labels"]}}
                     for name, template in templates])
    if path.stem in NEEDS_MORE:
        assert result.code != 0 and result.stderr.count("violates PodSecurity") == len(templates), result
    else:
        assert result.code == 0, result


def dropped(sent, got, path=""):
    """Paths of the fields that were sent and are missing in the answer. The server turns stringData into data."""
    if isinstance(sent, dict):
        return [lost for key, value in sent.items() if key != "stringData"
                for lost in (dropped(value, got[key], f"{path}.{key}") if key in got else [f"{path}.{key}"])]
    if isinstance(sent, list):
        if len(got) < len(sent):
            return [path]
        return [lost for i, value in enumerate(sent) for lost in dropped(value, got[i], f"{path}[{i}]")]
    return []
