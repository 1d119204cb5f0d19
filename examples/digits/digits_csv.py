"""Images of digits, from a file of numbers: README.md describes it. The same as csv.cpp."""

import os
import re

SIDE = 8
PIXELS = SIDE * SIDE
BRIGHTEST = 16
LABELS = 10


class UsageError(Exception):
    """Something wrong with what the user gave: which argument, which value, what was expected."""


class DataError(UsageError):
    """The same of a file."""


def quoted(field):
    """A field as an error shows it: short, and without characters that a terminal would obey."""
    text = "".join(chr(c) if 0x20 <= c < 0x7F else f"\\x{c:02x}" for c in field[:20])
    return f"'{text}...'" if len(field) > 20 else f"'{text}'"


def parse_csv(text, name):
    """The pixels (PIXELS of each row, as one bytearray) and labels (a list) in the bytes of a file.

    DataError `NAME, line 3, column 12: '17': expected a whole number from 0 to 16, a pixel`.
    """
    pixels = bytearray()
    labels = []
    lines = text.split(b"\n")
    if not lines[-1]:
        lines.pop()

    for number, line in enumerate(lines, 1):
        fields = line.removesuffix(b"\r").split(b",")

        def fail(column, found, expected):
            raise DataError(f"{name}, line {number}, column {column}: {found}: expected {expected}")

        values = []
        for column in range(1, PIXELS + 2):
            most, what = (BRIGHTEST, "a pixel") if column <= PIXELS else (LABELS - 1, "the label")
            if column > len(fields):
                fail(column, "the line ends", "64 pixels and a label")
            field = fields[column - 1]
            if not re.fullmatch(rb"[0-9]{1,2}", field) or int(field) > most:
                fail(column, quoted(field), f"a whole number from 0 to {most}, {what}")
            values.append(int(field))
        if len(fields) > PIXELS + 1:
            found = quoted(fields[PIXELS + 1])
            fail(PIXELS + 2, found, "the end of the line after 64 pixels and a label")
        pixels += bytes(values[:PIXELS])
        labels.append(values[PIXELS])
    return pixels, labels


def read_csv(path):
    """Reads a file. UsageError if that is not possible, DataError as above and for less than two
    rows: one to learn from and one to recognise."""
    if os.path.isdir(path):
        raise UsageError(f"--csv '{path}': is a directory; expected a regular file")
    if os.path.exists(path) and not os.path.isfile(path):
        trouble = "is a device, pipe or socket; expected a regular file"
        raise UsageError(f"--csv '{path}': {trouble}")
    try:
        with open(path, "rb") as file:
            text = file.read()
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        trouble = f"cannot be opened ({reason}); expected a file to read"
        raise UsageError(f"--csv '{path}': {trouble}") from None
    pixels, labels = parse_csv(text, path)
    if len(labels) < 2:
        raise DataError(
            f"{path}, line {len(labels) + 1}, column 1: the file ends: "
            "expected at least two rows, one to learn from and one to recognise"
        )
    return pixels, labels
