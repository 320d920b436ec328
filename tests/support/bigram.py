"""Computes how well counts of bytes predict a text. A language model must be better than these bounds. Losses are in nats per byte."""

import collections
import math


def split(text):
    """The training part and the held-out part of a text, as mlk-runtime divides it."""
    kept = len(text) - len(text) // 10
    return text[:kept], text[kept:]


def _predictions(held_out, context):
    """Pairs of a label and the byte before it: all labels of sequences of `context` bytes."""
    size = (len(held_out) - 1) // context * context
    return list(zip(held_out[:size], held_out[1:size + 1]))


def unigram_loss(train, held_out, context):
    """The loss of the frequencies of bytes, with one added to each count."""
    counts = collections.Counter(train)
    pairs = _predictions(held_out, context)
    return -sum(math.log((counts[byte] + 1) / (len(train) + 256)) for _, byte in pairs) / len(pairs)


def bigram_loss(train, held_out, context):
    """The loss of the counts of pairs with interpolated Kneser-Ney smoothing (Ney, Essen & Kneser 1994). The discount is the best of 19 values
    for the held-out part itself, so an honest bigram model cannot be better."""
    pairs = _predictions(held_out, context)
    return min(_kneser_ney(train, pairs, discount / 20) for discount in range(1, 20))


def _kneser_ney(train, pairs, discount):
    counts = collections.Counter(zip(train, train[1:]))
    seen, followers, predecessors = collections.Counter(), collections.Counter(), collections.Counter()
    for (first, second), count in counts.items():
        seen[first] += count
        followers[first] += 1
        predecessors[second] += 1

    def probability(first, second):
        alone = (predecessors[second] + 0.5) / (len(counts) + 128)  # also above 0 for a new byte
        if not seen[first]:
            return alone
        return (max(0, counts[first, second] - discount) + discount * followers[first] * alone) / seen[first]

    return -sum(math.log(probability(*pair)) for pair in pairs) / len(pairs)
