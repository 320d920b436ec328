"""A GPT learns from more than the last byte: it predicts an unseen text better than counts of pairs of bytes do."""

import mlk
import pytest
from bigram import bigram_loss, split, unigram_loss

STEPS, LAYERS, CONTEXT = 200, 2, 32  # 8 s on two processors; with the 4 layers and the 256 bytes of the example over two minutes


@pytest.mark.timed
def test_after_200_steps_a_small_version_of_the_example_gpt_predicts_an_unseen_text_better_than_a_bigram_model(embedded, name):
    example = mlk.EXAMPLES / "gpt-cpu.yaml"
    settings = (f"name={name}", f"train.steps={STEPS}", f"train.evaluate_every={STEPS}", f"train.model.layers={LAYERS}",
                f"train.model.context={CONTEXT}")
    sets = (word for setting in settings for word in ("--set", setting))
    run = embedded.mlk("submit", "--wait", *sets, example, check=0, timeout=900).stdout.strip()
    result = embedded.mlk("status", run, "-o", "json", check=0).json()["result"]
    assert result["step"] == STEPS
    train, held_out = split((mlk.EXAMPLES / "data/opticks/train.txt").read_bytes())
    unigram, bigram = (loss(train, held_out, CONTEXT) for loss in (unigram_loss, bigram_loss))
    assert 2 < bigram < unigram < 4, "these are losses of English"
    assert result["metrics"]["held_out_loss"] < bigram
