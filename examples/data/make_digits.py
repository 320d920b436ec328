#!/usr/bin/env python3
"""Turns scikit-learn's digits.csv.gz into the four IDX files of digits/.

usage: make_digits.py digits.csv.gz [OUT]        (OUT: digits/ beside this file)

Standard library only, and the same bytes on every machine: the order is made from SHA-256, not from a random module,
and the gzip header is written here.
"""

import gzip
import hashlib
import os
import struct
import sys
import zlib

SEED = "mlk-digits-1"
HELD_OUT = 297
SIDE = 8


def read_samples(path):
    """[(pixels, label)]: each line of the file is 64 pixels, 0 to 16, and the digit."""
    samples = []
    with gzip.open(path, "rt") as lines:
        for line in lines:
            *pixels, label = [int(float(value)) for value in line.split(",")]
            if len(pixels) != SIDE * SIDE or not all(0 <= p <= 16 for p in pixels) or not 0 <= label <= 9:
                sys.exit(f"{path}: not a line of digits: {line.strip()}")
            samples.append((bytes(pixels), label))
    return samples


def shuffled(samples):
    """Sorted by the hash of seed and position: any order that has nothing to do with the writers."""
    key = [hashlib.sha256(f"{SEED}:{i}".encode()).digest() for i in range(len(samples))]
    return [samples[i] for i in sorted(range(len(samples)), key=key.__getitem__)]


def write_gzip(path, data):
    deflate = zlib.compressobj(9, zlib.DEFLATED, -15)
    header = b"\x1f\x8b\x08\x00" + struct.pack("<I", 0) + b"\x02\xff"  # no name, mtime 0, best, unknown system
    with open(path, "wb") as out:
        out.write(header + deflate.compress(data) + deflate.flush())
        out.write(struct.pack("<II", zlib.crc32(data), len(data)))


def write_pair(folder, prefix, samples):
    """IDX: two zero bytes, type 8 (unsigned byte), number of dimensions; each dimension big-endian; the data."""
    images = struct.pack(">HBBIII", 0, 8, 3, len(samples), SIDE, SIDE) + b"".join(pixels for pixels, _ in samples)
    labels = struct.pack(">HBBI", 0, 8, 1, len(samples)) + bytes(label for _, label in samples)
    write_gzip(os.path.join(folder, f"{prefix}-images-idx3-ubyte.gz"), images)
    write_gzip(os.path.join(folder, f"{prefix}-labels-idx1-ubyte.gz"), labels)


def main():
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    folder = sys.argv[2] if len(sys.argv) == 3 else os.path.join(os.path.dirname(os.path.abspath(__file__)), "digits")
    os.makedirs(folder, exist_ok=True)
    samples = shuffled(read_samples(sys.argv[1]))
    write_pair(folder, "train", samples[:-HELD_OUT])
    write_pair(folder, "t10k", samples[-HELD_OUT:])


if __name__ == "__main__":
    main()
