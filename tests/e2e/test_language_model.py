"""The GPT of the example learns from more than the last byte: it predicts an unseen text better than counts of pairs of bytes do."""

import mlk
import pytest
from bigram import bigram_loss, split, unigram_loss

STEPS, CONTEXT = 250, 32  # 20 s on two processors; with the 256 bytes of the example over two minutes


@pytest.mark.timed
def test_after_250_steps_the_example_gpt_predicts_an_unseen_text_better_than_a_bigram_model(embedded, name):
    example = mlk.EXAMPLES / "gpt-cpu.yaml"
    run = embedded.mlk("submit", "--wait", "--set", f"name={name}", "--set", f"train.steps={STEPS}", "--set",
                       f"train.model.context={CONTEXT}", "--set", f"train.evaluate_every={STEPS}", example, check=0, timeout=900).stdout.strip()
    result = embedded.mlk("status", run, "-o", "json", check=0).json()["result"]
    assert result["step"] == STEPS
    train, held_out = split((mlk.EXAMPLES / "data/opticks/train.txt").read_bytes())
    unigram, bigram = (loss(train, held_out, CONTEXT) for loss in (unigram_loss, bigram_loss))
    assert 2 < bigram < unigram < 4, "these are losses of English"
    assert result["metrics"]["held_out_loss"] < bigram
