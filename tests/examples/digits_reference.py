#!/usr/bin/env python3
"""What examples/digits has to answer, by brute force and without ember.

usage: digits_reference.py [--csv FILE] [--train N] [--k K] [--plain]

Prints the label predicted for each query, one per line. Every distance is computed as it is
defined, in 64-bit integers; of equal distances the row that comes first is nearer; the label that
most of the K nearest rows have wins, of equally frequent ones the smallest. Uses NumPy if it is
there and --plain is not given.
"""

import argparse
import os

try:
    import numpy
except ImportError:
    numpy = None

DATA = os.path.join(os.path.dirname(__file__), "../../examples/digits/data/digits.csv")


def nearest_numpy(train, query, k):
    distances = ((train - query) ** 2).sum(axis=1)
    return numpy.argsort(distances, kind="stable")[:k].tolist()


def nearest_plain(train, query, k):
    distances = [sum((a - b) * (a - b) for a, b in zip(row, query)) for row in train]
    return sorted(range(len(train)), key=lambda row: (distances[row], row))[:k]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--csv", default=DATA)
    parser.add_argument("--train", type=int, default=1000)
    parser.add_argument("--k", type=int, default=5)
    parser.add_argument("--plain", action="store_true")
    options = parser.parse_args()

    with open(options.csv) as file:
        rows = [[int(field) for field in line.split(",")] for line in file]
    pixels = [row[:-1] for row in rows]
    labels = [row[-1] for row in rows]
    nearest = nearest_plain
    if numpy is not None and not options.plain:
        pixels = numpy.array(pixels, dtype=numpy.int64)
        nearest = nearest_numpy

    for query in pixels[options.train:]:
        votes = [labels[row] for row in nearest(pixels[: options.train], query, options.k)]
        print(max(sorted(set(votes)), key=votes.count))


if __name__ == "__main__":
    main()
