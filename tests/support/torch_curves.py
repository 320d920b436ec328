"""Curves and logits of PyTorch, recorded by tests/torch_curves/record, and the data and settings with which mlk-runtime computes the same."""

import array
import itertools
import json
import pathlib
import random
import shutil
import struct

import mlk
from runtime_processes import Run, complete_optimizer, write_digits

FILE = mlk.ROOT / "tests/torch_curves/curves.json"
RECORDED = json.loads(FILE.read_text()) if FILE.exists() else {}
WITH_BFLOAT16 = [name for name, curve in RECORDED.get("curves", {}).items() if "bfloat16" in curve]


def write_tokens(path, tokens):
    """A shard of llm.c's format."""
    path.write_bytes(struct.pack("<256i", 20240520, 1, len(tokens), *[0] * 253) + array.array("H", tokens).tobytes())


def write_data(folder, data):
    """Writes the data set of a curve: {"clusters": arguments of write_digits}, {"digits": {}}, {"text": {"bytes": N}} or {"tokens":
    {"count": N, "vocabulary": N}}."""
    ((kind, options),) = data.items()
    folder.mkdir(exist_ok=True)
    if kind == "clusters":
        write_digits(folder, **options)
    elif kind == "digits":
        for old in folder.iterdir():  # mlk-runtime prefers plain files to packed files
            old.unlink()
        for path in (mlk.EXAMPLES / "data/digits").glob("*.gz"):
            shutil.copy(path, folder)
    elif kind == "text":
        text = (mlk.EXAMPLES / "data/opticks/train.txt").read_bytes()
        (folder / "train.txt").write_bytes(text[:options["bytes"]])
        (folder / "held_out.txt").write_bytes(text[options["bytes"]:][:2000])
    else:
        rng = random.Random(5)
        tokens = [rng.randrange(options["vocabulary"]) for _ in range(options["count"])]
        write_tokens(folder / "train.bin", tokens)
        write_tokens(folder / "val.bin", tokens)


def whole_config(run):
    """The configuration of a single process that reports every step."""
    return {"schema": 1, "mode": "single", "precision": "float32", "consistency": "sync", "report_every": 1, "evaluate_every": 0,
            "step_delay_ms": 0, "workers": {"count": 1, "min": 1}, "servers": {"count": 0}, "checkpoint": {"every": 0, "keep": 1},
            "patience_seconds": 30, "offline_seconds": 60, "steps": 50, "seed": 1, **run, "optimizer": complete_optimizer(run["optimizer"])}


def read_safetensors(path):
    """{name: (shape, bytes)} in the order of the file."""
    content = pathlib.Path(path).read_bytes()
    data = 8 + struct.unpack_from("<Q", content)[0]
    header = json.loads(content[8:data])
    header.pop("__metadata__", None)
    order = sorted(header.items(), key=lambda item: item[1]["data_offsets"])
    return {name: (tensor["shape"], content[data + tensor["data_offsets"][0]:data + tensor["data_offsets"][1]]) for name, tensor in order}


def losses_of(folder):
    """The losses by step in the event file of a run. They have all digits of a float, while metrics lines have only four digits."""
    (path,) = pathlib.Path(folder).iterdir()
    content, at, losses = path.read_bytes(), 0, {}
    while at < len(content):
        size = struct.unpack_from("<Q", content, at)[0]
        event = content[at + 12:at + 12 + size]
        at += size + 16
        name = event.find(b"\x0a\x04loss\x15")  # a field with a text, followed by a field of 32 bits
        if name >= 0:
            losses[_varint(event, 10)] = struct.unpack_from("<f", event, name + 7)[0]
    return [losses[step] for step in sorted(losses)]


def _varint(data, at):
    value = 0
    for shift in itertools.count(0, 7):
        value |= (data[at] & 0x7F) << shift
        at += 1
        if data[at - 1] < 0x80:
            return value


def train(folder, curve, env=None, **config):
    """Trains in a single process with the settings of a recorded curve. Returns the run, which has ended, and the losses of its steps."""
    with Run(folder, "single", workers=1, checkpoints=True, **{**curve["run"], "report_every": 1, "seed": 1, "steps": 50, **config}) as run:
        write_data(run.data, curve["data"])
        worker = run.start("worker", 0, MLK_TENSORBOARD=str(folder / "events"), **(env or {}))
        assert worker.wait() == 0, worker.errors()
    return run, losses_of(folder / "events")


def are_within_noise(losses, recorded):
    """Whether these losses with bfloat16 match the recorded losses. At each step the difference may be twice the largest difference of the recorded
    runs up to this step, or the difference of PyTorch's own float32 losses between two processors."""
    return all(abs(loss - expected) <= max(1e-5, 2 * noise)
               for loss, expected, noise in zip(losses, recorded["losses"], recorded["noise"], strict=True))


def gpt2_tensors(layers, width, context, vocabulary):
    """{name: (shape, floats)} of a random GPT-2, with the names and shapes of Hugging Face's file, in the order of the model."""
    rng = random.Random(3)
    shapes = {"wte.weight": [vocabulary, width], "wpe.weight": [context, width]}
    for block in range(layers):
        for name, shape in (("ln_1", [width]), ("attn.c_attn", [width, 3 * width]), ("attn.c_proj", [width, width]), ("ln_2", [width]),
                            ("mlp.c_fc", [width, 4 * width]), ("mlp.c_proj", [4 * width, width])):
            shapes[f"h.{block}.{name}.weight"], shapes[f"h.{block}.{name}.bias"] = shape, shape[-1:]
    shapes["ln_f.weight"] = shapes["ln_f.bias"] = [width]

    def numbers(name, shape):
        middle = 1 if name.startswith("ln") or ".ln" in name and name.endswith("weight") else 0
        size = shape[0] * (shape[1] if len(shape) > 1 else 1)
        return array.array("f", (middle + 0.3 * (sum(rng.random() for _ in range(12)) - 6) for _ in range(size)))
    return {name: (shape, numbers(name, shape)) for name, shape in shapes.items()}
