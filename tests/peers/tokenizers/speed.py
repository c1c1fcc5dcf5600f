"""How fast PyPI's tokenizers encodes a text on one core: megabytes per second of the processor's time.

  speed.py TEXT TOKENIZER.json        to be held against: time hetsynth tokenize TEXT -t TOKENIZER.json -o tokens.npy --threads 1
"""

import os
import sys
import time

os.environ["TOKENIZERS_PARALLELISM"] = "false"
from tokenizers import Tokenizer  # noqa: E402

tokenizer = Tokenizer.from_file(sys.argv[2])
text = open(sys.argv[1], encoding="utf-8").read()
parts = [text[i:i + 65536] for i in range(0, len(text), 65536)]
begin = time.process_time()
encoded = tokenizer.encode_batch_fast(parts)
seconds = time.process_time() - begin
print(f"{len(text.encode()) / 1e6 / seconds:.2f} MB/s, {sum(len(part.ids) for part in encoded)} tokens")
