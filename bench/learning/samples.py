"""Samples from which 20 small steps can learn, where the default samples are too many things at once.

Images are made as `image_batch` makes them up: a pattern of the class on a 4 x 4 grid and as much noise. The default
ones are of all 1000 classes: of the few images of 20 small steps hardly two show one class, and no network could say
more of them than ln(1000). Here they show ten classes; the network still has 1000 outputs and begins at ln(1000).

Rows of features are made as `feature_batch` makes them up, but few of them, seen again and again: of 15,580 numbers in
a row the default teacher sees 322, which no network finds out from 1,280 rows.
"""
import array
import math
import pathlib
import random
import statistics
import struct

GRID = 4


def save(path, kind, shape, content):
    """NumPy's format, version 1.0."""
    header = "{'descr': '%s', 'fortran_order': False, 'shape': (%s,), }" % (kind, ", ".join(map(str, shape)))
    header += " " * (-(len(header) + 11) % 64) + "\n"
    path.write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + content)


def write(folder, data):
    folder = pathlib.Path(folder)
    folder.mkdir()
    write_images(folder, data) if "images" in data else write_features(folder, data)


def write_features(folder, data):
    """data: rows, groups ({name: width}). Targets are tanh of a linear teacher that sees 64 features of each group."""
    draw = random.Random(1)
    scores, squares = [0.0] * data["rows"], 0.0
    for name, width in data["groups"].items():
        teacher = [draw.gauss(0, 1) for _ in range(min(width, 64))]
        squares += sum(weight**2 for weight in teacher)
        values = array.array("f")
        for row in range(data["rows"]):
            features = [draw.gauss(0, 1) for _ in range(width)]
            scores[row] += sum(weight * feature for weight, feature in zip(teacher, features))
            values.extend(features)
        save(folder / f"{name}.npy", "<f4", [data["rows"], width], values.tobytes())
    targets = array.array("f", [math.tanh(score / math.sqrt(squares)) for score in scores])
    save(folder / "targets.npy", "<f4", [len(targets)], targets.tobytes())


def write_images(folder, data):
    """data: images, side, classes, shown (how many of the classes appear)."""
    draw = random.Random(1)
    side, shown = data["side"], data["shown"]
    quantiles = [statistics.NormalDist().inv_cdf((i + 0.5) / 256) for i in range(256)]
    # The 256 values of each field of each class, four bytes each.
    words = [[[struct.pack("<f", (mean + q) * 0.5**0.5) for q in quantiles]
              for mean in [draw.gauss(0, 1) for _ in range(3 * GRID * GRID)]] for _ in range(shown)]
    labels = array.array("i", [draw.randrange(shown) for _ in range(data["images"])])
    parts = []
    for label in labels:
        for channel in range(3):
            for y in range(side):
                noise = draw.randbytes(side)
                for field in range(GRID):
                    first, end = -(-field * side // GRID), -(-(field + 1) * side // GRID)
                    row = words[label][(channel * GRID + y * GRID // side) * GRID + field]
                    parts.append(b"".join([row[b] for b in noise[first:end]]))
    save(folder / "samples.npy", "<f4", [len(labels), 3, side, side], b"".join(parts))
    save(folder / "labels.npy", "<i4", [len(labels)], labels.tobytes())
