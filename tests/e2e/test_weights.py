"""Reading and writing weights: GPT-2 in Hugging Face's layout, compared with PyTorch, and the first weights of a run in every mode."""

import array
import json
import subprocess
import sys

import mlk
import pytest
import torch_curves
import wheels
from runtime_processes import Run, newest_checkpoint

pytestmark = pytest.mark.runtime

GPT = {"model": {"type": "gpt", "layers": 2, "width": 16, "heads": 2, "context": 12}, "data": {"format": "text", "batch": 2},
       "optimizer": {"type": "adamw", "lr": 0.01}, "steps": 6}
TEXT = {"text": {"bytes": 3000}}


@pytest.fixture(scope="session")
def safetensors():
    try:
        folder = wheels.unpack("safetensors-0.8.0", [wheels.SAFETENSORS], "safetensors for tests")
    except (subprocess.SubprocessError, RuntimeError) as error:
        pytest.skip(f"the package cannot be fetched: {error}")
    sys.path.insert(0, str(folder))
    try:
        import safetensors
        return safetensors
    finally:
        sys.path.remove(str(folder))


def spec(safetensors, shape, values):
    """The specification of a tensor. `values` must stay alive until they are serialized."""
    place, count = values.buffer_info()
    dtype = {"f": "float32", "B": "uint8"}[values.typecode]
    return safetensors.TensorSpec(dtype=dtype, shape=shape, data_ptr=place, data_len=count * values.itemsize)


def probe(folder, config, data, *weights):
    """The output of model_probe, and the folder with the weights that it writes."""
    (folder / "probed.json").write_text(json.dumps(torch_curves.whole_config(config)))
    out = folder / "probed"
    return mlk.run(mlk.BUILD / "model_probe", folder / "probed.json", data, out, *weights, check=0).stdout, out


def test_logits_of_gpt2_match_those_of_pytorch_and_its_weights_are_written_unchanged(tmp_path, safetensors):
    recorded = torch_curves.RECORDED["logits"]
    model, vocabulary = recorded["run"]["model"], recorded["run"]["data"]["vocabulary"]
    torch_curves.write_data(tmp_path / "data", recorded["data"])
    tensors = torch_curves.gpt2_tensors(model["layers"], model["width"], model["context"], vocabulary)
    context = model["context"]
    mask = array.array("B", bytes(context * context))  # files on the hub have this mask
    masks = {f"h.{block}.attn.bias": ([1, 1, context, context], mask) for block in range(model["layers"])}
    file = {name: spec(safetensors, shape, values) for name, (shape, values) in {**tensors, **masks}.items()}
    (tmp_path / "hub.safetensors").write_bytes(safetensors.serialize(file, {"format": "pt"}))
    told, out = probe(tmp_path, recorded["run"], tmp_path / "data", tmp_path / "hub.safetensors")
    logits = [[float(number) for number in line.split()] for line in told.splitlines()]
    assert len(logits) == len(recorded["logits"]) == 2 * context
    for ours, theirs in zip(logits, recorded["logits"]):
        assert ours == pytest.approx(theirs, abs=1e-4)
    again = dict(safetensors.deserialize((out / "model.safetensors").read_bytes()))
    assert again.keys() == {f"transformer.{name}" for name in tensors}
    for name, (shape, values) in tensors.items():
        tensor = again[f"transformer.{name}"]
        assert (tensor["dtype"], tensor["shape"]) == ("F32", shape)
        assert bytes(tensor["data"]) == values.tobytes()
    description = json.loads((out / "config.json").read_text())
    assert [description[key] for key in ("model_type", "n_layer", "n_embd", "n_head", "n_positions", "vocab_size")] == [
        "gpt2", model["layers"], model["width"], model["heads"], context, vocabulary]


MODES = [("single", {}), ("ps", {"servers": 2, "consistency": "sync", "workers": 2}), ("allreduce", {"workers": 2})]


def trained(folder, mode, env=None, workers=1, **config):
    """The weights that the run writes at its end, and the weights of its checkpoint."""
    with Run(folder, mode, workers=workers, checkpoints=True, **{**GPT, "report_every": 1, **config}) as run:
        torch_curves.write_data(run.data, TEXT)
        processes = [run.start("server", rank) for rank in range(run.servers_count)]
        processes += [run.start("worker", rank, **(env or {})) for rank in range(run.workers_count)]
        for process in processes:
            assert process.wait() == 0, process.errors()
        said = run.processes["worker", 0, run.servers_count].errors()
        assert ("begins with the weights in " in said) == bool(env)
        saved = newest_checkpoint(run.checkpoints)[1]
        left = torch_curves.read_safetensors(run.checkpoints / "model/model.safetensors")
        return left, {name: values.tobytes() for name, values in saved.items() if not name.startswith("optimizer.")}


@pytest.mark.parametrize(("mode", "config"), MODES, ids=[mode for mode, _ in MODES])
def test_every_mode_begins_with_the_weights_of_a_file_and_writes_the_trained_weights(tmp_path, mode, config):
    torch_curves.write_data(tmp_path / "data", TEXT)
    first, saved = trained(tmp_path / "by-seed", mode, **config)
    assert {name: values for name, (_, values) in first.items()} == saved
    _, same = probe(tmp_path, {**GPT, "seed": 1}, tmp_path / "data")
    weights = {"MLK_WEIGHTS": str(same / "model.safetensors")}
    assert trained(tmp_path / "by-file", mode, weights, **config)[0] == first
    _, other = probe(tmp_path, {**GPT, "seed": 2}, tmp_path / "data")
    weights = {"MLK_WEIGHTS": str(other / "model.safetensors")}
    assert trained(tmp_path / "by-other", mode, weights, **config)[0] != first


def test_a_run_continues_from_its_checkpoint_and_not_from_the_weights_of_the_file(tmp_path):
    torch_curves.write_data(tmp_path / "data", TEXT)
    _, other = probe(tmp_path, {**GPT, "seed": 2}, tmp_path / "data")
    with Run(tmp_path, "single", workers=1, checkpoints=True, **GPT) as run:
        torch_curves.write_data(run.data, TEXT)
        worker = run.start("worker", 0)
        assert worker.wait() == 0, worker.errors()
        left = run.checkpoints / "model/model.safetensors"
        before = left.read_bytes()
        left.unlink()
        worker = run.start("worker", 0, MLK_WEIGHTS=str(other / "model.safetensors"))
        assert worker.wait() == 0, worker.errors()
        assert "goes on from the checkpoint of step 6" in worker.errors()
        assert left.read_bytes() == before


@pytest.mark.parametrize(("change", "code", "sentence"), [
    ({"model": {**GPT["model"], "layers": 3}}, 64, "it is of a GPT of another size: write model: {layers: 2}"),
    ({"model": {**GPT["model"], "heads": 4}}, 64, "n_head is 2, and model.heads is 4"),
    ({"cut": 100}, 65, "lies outside of the file"),
    ({"missing": True}, 65, "No such file or directory"),
], ids=["size", "heads", "cut", "missing"])
def test_a_run_ends_and_says_why_in_one_sentence_if_it_cannot_use_the_weights_of_the_file(tmp_path, change, code, sentence):
    torch_curves.write_data(tmp_path / "data", TEXT)
    _, out = probe(tmp_path, GPT, tmp_path / "data")
    path = out / "model.safetensors"
    if "cut" in change:
        path.write_bytes(path.read_bytes()[:-change.pop("cut")])
    if "missing" in change:
        path.unlink()
        change.pop("missing")
    with Run(tmp_path, "single", workers=1, **{**GPT, **change}) as run:
        torch_curves.write_data(run.data, TEXT)
        worker = run.start("worker", 0, MLK_WEIGHTS=str(path))
        assert worker.wait() == code
        assert sentence in worker.errors()
        assert len(worker.errors().splitlines()) == 1
        assert sentence in worker.result()["message"]


def test_a_run_succeeds_with_a_warning_if_its_trained_weights_cannot_be_written(tmp_path):
    with Run(tmp_path, "single", workers=1, checkpoints=True) as run:
        run.checkpoints.mkdir()
        (run.checkpoints / "model").write_text("in the way")
        worker = run.start("worker", 0)
        assert worker.wait() == 0, worker.errors()
        assert "warning: the trained weights are not in " in worker.errors()
        assert worker.result()["checkpoint"] == run.steps


@pytest.mark.parametrize(("mode", "config"), MODES, ids=[mode for mode, _ in MODES])
def test_a_trained_gpt_prints_a_sample_of_its_text_in_one_line(tmp_path, mode, config):
    settings = {"workers": 1, **GPT, **config, "steps": 200, "data": {"format": "text", "batch": 4, "micro_batch": 2},
                "sample": {"tokens": 33, "temperature": 0}}
    with Run(tmp_path, mode, **settings) as run:
        # The text repeats 11 bytes, so sequences of 12 bytes begin at each of them. So the model can also continue a text beyond its context.
        (run.data / "train.txt").write_bytes(b"an \"ox\" it\n" * 60)
        processes = sum(run.start_all(), [])
        for process in processes:
            assert process.wait() == 0, process.errors()
        said = [line for process in processes for line in process.errors().splitlines() if "sample: " in line]
        assert said == ['mlk-runtime worker/0: sample: "' + 3 * 'an \\"ox\\" it\\n' + '"']
