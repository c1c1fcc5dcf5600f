"""Holds hetsynth's tokenizers against PyPI's tokenizers, tiktoken and sentencepiece: the same ids for every text, and
the same bytes back. The tokenizers are trained on the spot.

  compare.py ENCODE TOKENIZE FOLDER [SEED [TEXTS]]

ENCODE is the program of encode.cpp, TOKENIZE the command ("build/hetsynth tokenize"; "" leaves out what needs it),
FOLDER keeps the tokenizers.
"""

import array
import json
import pathlib
import random
import struct
import subprocess
import sys
import time

import sentencepiece
import tiktoken
import tokenizers
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

import texts

GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|"
          r"\s+(?!\S)|\s+")
QWEN2 = LLAMA3.replace("{1,3}", "")
CL100K = (r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]|"
          r"\s+(?!\S)|\s")
LOWER, UPPER = r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]", r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]"
O200K = "|".join([rf"[^\r\n\p{{L}}\p{{N}}]?{UPPER}*{LOWER}+(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
                  rf"[^\r\n\p{{L}}\p{{N}}]?{UPPER}+{LOWER}*(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
                  r"\p{N}{1,3}", r" ?[^\s\p{L}\p{N}]+[\r\n/]*", r"\s*[\r\n]+", r"\s+(?!\S)", r"\s+"])
DEEPSEEK = [r"\p{N}{1,3}", r"[一-龥぀-ゟ゠-ヿ]+",
            r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| "
            r"?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"]
CORPUS = list(texts.LANGUAGES.values()) + ["".join(texts.LANGUAGES.values())] * 3


def split(pattern, behavior="isolated", invert=False):
    return pre_tokenizers.Split(Regex(pattern), behavior, invert)


def byte_level(*before, use_regex=False, prefix=False):
    last = pre_tokenizers.ByteLevel(add_prefix_space=prefix, use_regex=use_regex)
    return pre_tokenizers.Sequence([*before, last]) if before else last


def make(model, pre=None, norm=None, decoder=None, size=900, trainer=trainers.BpeTrainer, added=(), **options):
    made = Tokenizer(model)
    if pre is not None:
        made.pre_tokenizer = pre
    if norm is not None:
        made.normalizer = norm
    if decoder is not None:
        made.decoder = decoder
    made.train_from_iterator(CORPUS, trainer(vocab_size=size, show_progress=False, **options))
    made.add_special_tokens([AddedToken("<|endoftext|>", normalized=False, special=True)])
    made.add_tokens(list(added))
    return made


def byte_tokenizer(pre, norm=None, ignore_merges=False, size=900, added=()):
    return make(models.BPE(ignore_merges=ignore_merges), pre, norm, decoders.ByteLevel(), size, added=added,
                initial_alphabet=pre_tokenizers.ByteLevel.alphabet())


def llama2(pre, norm, decoder):
    special = ["<unk>", "<s>", "</s>"] + [f"<0x{i:02X}>" for i in range(256)]
    model = models.BPE(unk_token="<unk>", byte_fallback=True, fuse_unk=True)
    made = make(model, pre, norm, decoder, 1100, special_tokens=special)
    # Bytes are no special tokens in files of Llama 2.
    text = json.loads(made.to_str())
    text["added_tokens"] = [t for t in text["added_tokens"] if not t["content"].startswith("<0x")]
    return Tokenizer.from_str(json.dumps(text))


def bert(pre=None):
    norm = normalizers.Sequence([normalizers.NFD(), normalizers.Lowercase(), normalizers.StripAccents()])
    return make(models.WordPiece(unk_token="[UNK]"), pre or pre_tokenizers.BertPreTokenizer(), norm,
                decoders.WordPiece(cleanup=False), 700, trainers.WordPieceTrainer, special_tokens=["[UNK]", "[CLS]"])


def with_added():
    added = [AddedToken("<mask>", lstrip=True, rstrip=True, normalized=False), AddedToken("<s>", rstrip=True),
             AddedToken("endof", normalized=True), AddedToken("En", normalized=True), AddedToken("<|endo", lstrip=True)]
    return byte_tokenizer(byte_level(use_regex=True), normalizers.Lowercase(), added=added)


def all_tokenizers():
    metaspace = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(),
                                   decoders.Strip(" ", 1, 0)])
    old = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    unknown = dict(special_tokens=["[UNK]"])
    plain = lambda **o: models.BPE(unk_token="[UNK]", **o)
    return {
        "gpt2": byte_tokenizer(byte_level(use_regex=True)),
        "gpt2-prefix-space": byte_tokenizer(byte_level(use_regex=True, prefix=True)),
        "gpt2-split": byte_tokenizer(byte_level(split(GPT2))),
        "llama3": byte_tokenizer(byte_level(split(LLAMA3)), ignore_merges=True),
        "llama3-inverted": byte_tokenizer(byte_level(split(LLAMA3, "removed", True))),
        "qwen2": byte_tokenizer(byte_level(split(QWEN2)), normalizers.NFC()),
        "o200k": byte_tokenizer(byte_level(split(O200K)), ignore_merges=True),
        "deepseek": byte_tokenizer(byte_level(*map(split, DEEPSEEK))),
        "added": with_added(),
        "no-words": byte_tokenizer(byte_level()),
        "digits": byte_tokenizer(byte_level(pre_tokenizers.Digits(True), use_regex=True)),
        "nfkc": byte_tokenizer(byte_level(use_regex=True), normalizers.NFKC()),
        "llama2": llama2(None, old, metaspace),
        "llama2-first": llama2(pre_tokenizers.Metaspace("▁", "first", False), None, metaspace),
        "metaspace": llama2(pre_tokenizers.Metaspace("▁", "always", True), None, decoders.Metaspace("▁", "always")),
        "metaspace-never": llama2(pre_tokenizers.Metaspace("▁", "never", True), None, decoders.Metaspace("▁", "never")),
        "clip": make(plain(end_of_word_suffix="</w>"), pre_tokenizers.Whitespace(), normalizers.Lowercase(),
                     decoders.BPEDecoder("</w>"), end_of_word_suffix="</w>", **unknown),
        "prefix": make(plain(continuing_subword_prefix="##"), pre_tokenizers.WhitespaceSplit(),
                       continuing_subword_prefix="##", **unknown),
        "fused": make(plain(fuse_unk=True), pre_tokenizers.Punctuation("merged_with_previous"), size=200, **unknown),
        "next": make(plain(), split(r"\d+|[^\w\s]", "merged_with_next"), size=200, **unknown),
        "contiguous": make(plain(), split(r"\s", "contiguous"), size=200, **unknown),
        "bert": bert(),
    }


def ours(encode, path, inputs):
    data = b"".join(struct.pack("<i", len(t)) + t for t in (text.encode() for text in inputs))
    done = subprocess.run([encode, str(path)], input=data, stdout=subprocess.PIPE, check=True)
    at, out = 0, []
    for _ in inputs:
        parts = []
        for size in (4, 1):
            count, = struct.unpack_from("<i", done.stdout, at)
            parts.append(done.stdout[at + 4:at + 4 + count * size])
            at += 4 + count * size
        out.append((list(struct.unpack(f"<{len(parts[0]) // 4}i", parts[0])), parts[1]))
    return out


class Comparison:
    def __init__(self, encode, folder):
        self.encode, self.folder, self.failures = encode, folder, 0

    def hold(self, name, path, inputs, ids_of, bytes_of=None):
        wrong = []
        for text, (ids, back) in zip(inputs, ours(self.encode, path, inputs)):
            expected = ids_of(text)
            if ids != expected:
                wrong.append((text, ids, expected))
            elif bytes_of is not None and back.decode("utf-8", "replace") != bytes_of(expected):
                wrong.append((text, back, bytes_of(expected)))
        self.failures += len(wrong)
        print(f"{name:20} {len(inputs):6} texts  {len(wrong)} differences", flush=True)
        for text, found, expected in wrong[:3]:
            print(f"  {text!r:.200}\n    found    {found!r:.200}\n    expected {expected!r:.200}")


def tiktoken_of(path, pattern):
    """A tiktoken of the same tokens: what it merges first is what has the least id."""
    letters = {}
    extra = 0
    for byte in range(256):
        if 33 <= byte <= 126 or 161 <= byte <= 172 or byte >= 174:
            letters[chr(byte)] = byte
        else:
            letters[chr(256 + extra)] = byte
            extra += 1
    text = json.loads(path.read_text())
    special = {t["content"]: t["id"] for t in text["added_tokens"]}
    ranks = {bytes(letters[c] for c in token): id for token, id in text["model"]["vocab"].items() if token not in special}
    return tiktoken.Encoding(path.stem, pat_str=pattern, mergeable_ranks=ranks, special_tokens=special)


def old_enough(form):
    """PyPI's tokenizers knows the decompositions of Unicode 11; what came later is left as it is there."""
    import unicodedata
    normalize = {"nfc": normalizers.NFC(), "nfkc": normalizers.NFKC(), "nfd": normalizers.NFD()}[form].normalize_str
    late = {chr(c) for c in range(0x110000) if not 0xD800 <= c < 0xE000 and
            (unicodedata.category(chr(c)) == "Cn" or
             normalize(chr(c)) != unicodedata.normalize(form.upper(), chr(c)) or
             (unicodedata.combining(chr(c)) and normalize(chr(c) + "\u0323\u0301") !=
              unicodedata.normalize(form.upper(), chr(c) + "\u0323\u0301")))}
    return lambda c: c not in late


def sentence_pieces(comparison, inputs):
    for kind in ("bpe", "unigram"):
        path = comparison.folder / f"{kind}.model"
        corpus = comparison.folder / "corpus.txt"
        corpus.write_text("\n".join(CORPUS))
        sentencepiece.SentencePieceTrainer.train(
            input=str(corpus), model_prefix=str(path.with_suffix("")), vocab_size=900, model_type=kind,
            byte_fallback=True, hard_vocab_limit=False, minloglevel=2)
        theirs = sentencepiece.SentencePieceProcessor(model_file=str(path))
        comparison.hold(f"sentencepiece {kind}", path, inputs, theirs.encode, theirs.decode)


def trained_by_us(comparison, tokenize, inputs):
    """Training gives the tokens that PyPI's tokenizers gives, and a file that it reads."""
    corpus = comparison.folder / "corpus"
    corpus.mkdir(exist_ok=True)
    for i, text in enumerate(CORPUS):
        (corpus / f"{i:02}.txt").write_bytes(text.encode())
    for name, pattern in (("gpt2", GPT2), ("llama3", LLAMA3)):
        path = comparison.folder / f"trained-{name}.json"
        subprocess.run([*tokenize, str(corpus), "--train-bpe", "1200", "--words", name, "--special", "<|endoftext|>",
                        "-o", str(path)], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        theirs = Tokenizer(models.BPE())
        theirs.pre_tokenizer = byte_level(split(pattern))
        theirs.train_from_iterator(CORPUS, trainers.BpeTrainer(
            vocab_size=1200, min_frequency=2, special_tokens=["<|endoftext|>"], show_progress=False,
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
        read = Tokenizer.from_file(str(path))
        same = read.get_vocab() == theirs.get_vocab()
        comparison.failures += not same
        print(f"trained {name:12} {read.get_vocab_size():6} tokens {'as' if same else 'NOT as'} PyPI's tokenizers")
        comparison.hold(f"trained {name}", path, inputs, lambda t: read.encode(t, add_special_tokens=False).ids,
                        lambda ids: read.decode(ids, skip_special_tokens=False))


def files_by_us(comparison, tokenize, seed):
    """A folder, of which one file is cut into many blocks, gives the ids of its files one after the other."""
    corpus = comparison.folder / "files"
    corpus.mkdir(exist_ok=True)
    rng = random.Random(seed)
    lines = texts.ODD[1:30] + list(texts.LANGUAGES.values()) + texts.shuffled_languages(seed, 300)
    for i, size in enumerate((40000, 1000, 1)):
        (corpus / f"{i}.txt").write_bytes("\n".join(rng.choice(lines) for _ in range(size)).encode())
    for name in ("gpt2", "llama3", "qwen2", "llama2", "added"):
        theirs = Tokenizer.from_file(str(comparison.folder / f"{name}.json"))
        end = theirs.token_to_id("<|endoftext|>")
        expected = []
        for path in sorted(corpus.iterdir()):
            expected += theirs.encode(path.read_bytes().decode(), add_special_tokens=False).ids + [end]
        tokens = comparison.folder / "files.npy"
        subprocess.run([*tokenize, str(corpus), "-t", str(comparison.folder / f"{name}.json"), "-o", str(tokens),
                        "--end-of-text", "<|endoftext|>"], check=True, stdout=subprocess.DEVNULL)
        npy = tokens.read_bytes()
        begin = 10 + int.from_bytes(npy[8:10], "little")  # behind the header, whose length its version 1 has there
        found = array.array("H", npy[begin:]).tolist()
        same = found == expected
        comparison.failures += not same
        print(f"files {name:14} {len(found):7} tokens {'as' if same else 'NOT as'} PyPI's tokenizers", flush=True)


def main():
    encode, tokenize, folder = sys.argv[1], sys.argv[2].split(), pathlib.Path(sys.argv[3])
    seed = int(sys.argv[4]) if len(sys.argv) > 4 else int(time.time())
    count = int(sys.argv[5]) if len(sys.argv) > 5 else 2000
    print(f"seed {seed}; tokenizers {tokenizers.__version__}, tiktoken {tiktoken.__version__}, "
          f"sentencepiece {sentencepiece.__version__}")
    folder.mkdir(parents=True, exist_ok=True)
    comparison = Comparison(encode, folder)
    fixed = list(texts.LANGUAGES.values()) + texts.ODD + texts.shuffled_languages(seed, count)
    usable = {form: old_enough(form) for form in ("nfc", "nfkc", "nfd")}
    anything = fixed + texts.random_texts(seed, count, lambda c: True)
    for name, theirs in all_tokenizers().items():
        path = folder / f"{name}.json"
        theirs.save(str(path))
        form = {"qwen2": "nfc", "nfkc": "nfkc", "bert": "nfd"}.get(name)
        inputs = [t for t in fixed if all(map(usable[form], t))] + texts.random_texts(seed, count, usable[form]) \
            if form else anything
        decodes = theirs.decoder is not None and name != "clip"
        comparison.hold(name, path, inputs, lambda t: theirs.encode(t, add_special_tokens=False).ids,
                        (lambda ids: theirs.decode(ids, skip_special_tokens=False)) if decodes else None)
    for name, pattern in (("gpt2", GPT2), ("llama3", LLAMA3), ("o200k", O200K)):
        theirs = tiktoken_of(folder / f"{name}.json", pattern)
        comparison.hold(f"tiktoken {name}", folder / f"{name}.json", anything,
                        lambda t: theirs.encode(t, allowed_special="all"))
    text = json.loads((folder / "gpt2.json").read_text())
    text["pre_tokenizer"] = json.loads(byte_tokenizer(byte_level(split(LLAMA3))).to_str())["pre_tokenizer"]
    text["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"] = CL100K
    path = folder / "cl100k.json"
    path.write_text(json.dumps(text))
    theirs = tiktoken_of(path, CL100K)
    comparison.hold("tiktoken cl100k", path, anything, lambda t: theirs.encode(t, allowed_special="all"))
    sentence_pieces(comparison, [t for t in anything if "\0" not in t])
    if tokenize:
        trained_by_us(comparison, tokenize, anything)
        files_by_us(comparison, tokenize, seed)
    print(f"{comparison.failures} differences in all")
    sys.exit(comparison.failures > 0)


if __name__ == "__main__":
    main()
