"""Samples from which 20 small steps can learn, where the default samples are too many things at once.

Images are made as `image_batch` makes them up: a pattern of the class on a 4 x 4 grid and as much noise. The default
ones are of all 1000 classes: of the few images of 20 small steps hardly two show one class, and no network could say
more of them than ln(1000). Here they show ten classes; the network still has 1000 outputs and begins at ln(1000).

Rows of features are made as `feature_batch` makes them up, but few of them, seen again and again: of 15,580 numbers in
a row the default teacher sees 322, which no network finds out from 1,280 rows.

Sentences are made as nothing else makes them: of inputs with names of a model's own the default ones teach nothing.
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
    if "images" in data:
        write_images(folder, data)
    elif "sentences" in data:
        write_sentences(folder, data)
    else:
        write_features(folder, data)


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


def write_sentences(folder, data):
    """data: sentences, length, words, names, tags. The words below `names` are of one of the tags above 0 each, the
    others of tag 0; every tenth word is such a name, and how it is capitalised tells it apart. Padding has tag -100."""
    draw = random.Random(1)
    columns = {name: array.array("i") for name in ("words", "caps", "mask", "tags")}
    for _ in range(data["sentences"]):
        own = draw.randrange(data["length"] // 4, data["length"] + 1)
        for i in range(data["length"]):
            name = draw.random() < 0.1
            word = draw.randrange(data["names"]) if name else draw.randrange(data["names"], data["words"])
            columns["mask"].append(i < own)
            columns["words"].append(word if i < own else 0)
            columns["caps"].append(int(name) if i < own else 0)
            columns["tags"].append(-100 if i >= own else 1 + word % (data["tags"] - 1) if name else 0)
    for name, values in columns.items():
        save(folder / f"{name}.npy", "<i4", [data["sentences"], data["length"]], values.tobytes())


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
