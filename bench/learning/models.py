"""The models of docs/models.md, and what one core and 12 GiB make of them."""
import dataclasses
import math


@dataclasses.dataclass
class Model:
    name: str
    file: str
    expected: float  # loss of a network that knows nothing yet
    why: str         # how `expected` comes about
    settings: dict = dataclasses.field(default_factory=dict)
    smaller: str = ""                                       # what was made smaller than published
    edits: list = dataclasses.field(default_factory=list)   # (text, text) in the example: sizes that are no options
    data: dict = None                                       # of samples.write; None: the default samples
    band: float = 0.1                                       # the first loss may differ from `expected` by this share
    text: bool = False                                      # trains on a text unless told otherwise


def words(count):
    return dict(expected=math.log(count), why=f"ln({count})")


def images(batch, side=224):
    data = dict(images=64, side=side, classes=1000, shown=10, note="images of 10 classes")
    return dict(expected=math.log(1000), why="ln(1000)", data=data, settings={"batch": batch})


def both(base, **more):
    return {**base, **more, "settings": {**base.get("settings", {}), **more.get("settings", {})}}


BERT = dict(expected=math.log(30522) + math.log(2), why="ln(30522) + ln(2)")

MODELS = [
    Model("mlp", "mlp.cpp", **words(256), text=True),
    Model("gpt", "gpt.cpp", **words(256), text=True),
    Model("VGG19", "vgg19.cpp", **images(4), smaller="batch 4 of 128"),
    Model("AlexNet", "alexnet.cpp", **images(16), smaller="batch 16 of 256"),
    Model("ResNet-101", "resnet101.cpp", **images(16), smaller="batch 16 of 64"),
    Model("ResNeXt-50 32x4d", "resnext50.cpp", **images(16), smaller="batch 16 of 64"),
    Model("Inception-v3", "inception_v3.cpp", **both(images(4, 299), expected=1.4 * math.log(1000),
          why="1.4 ln(1000)"), smaller="batch 4 of 64"),
    Model("DCGAN", "gan.cpp", expected=2 * math.log(2), why="2 ln(2)", settings={"batch": 16}, band=0.6,
          data=dict(images=64, side=64, classes=10, shown=10, note="images of 10 classes"), smaller="batch 16 of 128"),
    Model("ViT-B/16", "vit.cpp", **images(4), smaller="batch 4 of 256"),
    Model("Swin-B", "swin.cpp", **both(images(4), settings={"size": "base"}), smaller="batch 4 of 256"),
    Model("DLRM", "dlrm.cpp", expected=math.log(2), why="ln(2)"),
    Model("RNNTC", "rnntc.cpp", **words(2), settings={"batch": 32}, smaller="batch 32 of 64"),
    Model("RNNLM", "rnnlm.cpp", **words(10000), settings={"batch": 8}, smaller="batch 8 of 64"),
    Model("NMT", "nmt.cpp", **words(20480), settings={"batch": 8}, smaller="batch 8 of 64"),
    Model("CANDLE-Uno", "candle_uno.cpp", expected=0.394, why="mean square of the targets", band=0.3,
          data=dict(rows=64, note="64 rows again and again",
                    groups=dict(dose1=1, dose2=1, cell_rnaseq=942, drug1_descriptors=5270, drug1_fingerprints=2048,
                                drug2_descriptors=5270, drug2_fingerprints=2048))),
    Model("Tagger", "tagger.cpp", **words(9),
          data=dict(sentences=256, length=64, words=2000, names=200, tags=9, note="256 sentences again and again")),
    Model("GPT-2 124M", "gpt2.cpp", **words(50257), settings={"batch": 2},
          edits=[('{"124M", {12, 12, 768, 50257, 1024, 64}}', '{"124M", {12, 12, 768, 50257, 256, 64}}')],
          smaller="batch 2 of 64, length 256 of 1024"),
    Model("GPT-2 124M LoRA", "lora.cpp", **words(50257), settings={"batch": 2},
          edits=[('{"124M", {12, 12, 768, 50257, 1024, 64}}', '{"124M", {12, 12, 768, 50257, 256, 64}}')],
          smaller="batch 2 of 64, length 256 of 1024"),
    Model("BERT-Base", "bert.cpp", **BERT, settings={"batch": 4},
          edits=[('{"base", {12, 12, 768, 30522, 512, 64}}', '{"base", {12, 12, 768, 30522, 128, 64}}')],
          smaller="batch 4 of 64, length 128 of 512"),
    Model("BERT-MoE", "bert_moe.cpp", expected=math.log(30522) + 0.06, why="ln(30522) + 0.06 for balance",
          settings={"batch": 4}, smaller="batch 4 of 256"),
    Model("T5-Large-32", "t5.cpp", **words(32128), settings={"batch": 2, "size": "large-32"},
          edits=[('{"large-32", {16, 16, 1024, 4096, 32128, 512, 128, 64}}',
                  '{"large-32", {16, 16, 1024, 4096, 32128, 64, 64, 64}}')],
          smaller="batch 2 of 64, lengths 64 and 64 of 512 and 128"),
    Model("Switch-Base", "switch.cpp", expected=math.log(32128) + 0.02, why="ln(32128) + 0.02 for balance",
          settings={"batch": 2},
          edits=[('{"base", {12, 12, 768, 2048, 128, 32128, 512, 128, 64}}',
                  '{"base", {2, 12, 768, 2048, 32, 32128, 128, 128, 64}}')],
          smaller="2 of 12 layers in each stack, 32 of 128 experts (7.4 B parameters do not fit), batch 2 of 64, "
                  "source 128 of 512"),
    Model("TinyLlama 1.1B", "llama.cpp", **words(32000), settings={"batch": 2},
          edits=[('{"1.1B", {22, 32, 4, 2048, 5632, 32000, 2048, 64, 1e4}}',
                  '{"1.1B", {8, 32, 4, 2048, 5632, 32000, 128, 64, 1e4}}')],
          smaller="8 of 22 layers (18 GB do not fit), batch 2 of 64, length 128 of 2048"),
    Model("LLaMA 7B", "llama.cpp", **words(32000), settings={"batch": 2, "size": "7B"},
          edits=[('{"7B", {32, 32, 32, 4096, 11008, 32000, 2048, 64, 1e4}}',
                  '{"7B", {1, 32, 32, 4096, 11008, 32000, 128, 64, 1e4}}')],
          smaller="1 of 32 layers (108 GB do not fit), batch 2 of 64, length 128 of 2048"),
    Model("Llama 3 8B", "llama.cpp", **words(32000), settings={"batch": 2, "size": "8B"},
          edits=[('{"8B", {32, 32, 8, 4096, 14336, 128256, 2048, 64, 5e5}}',
                  '{"8B", {1, 32, 8, 4096, 14336, 32000, 128, 64, 5e5}}')],
          smaller="1 of 32 layers, 32000 of 128256 words (128 GB do not fit, and of the words alone 17), "
                  "batch 2 of 64, length 128 of 2048"),
    Model("TinyLlama 1.1B LoRA", "lora_llama.cpp", **words(32000), settings={"batch": 2, "length": 128},
          edits=[('{"1.1B", {22, 32, 4, 2048, 5632, 32000, 2048, 16, 1e4}}',
                  '{"1.1B", {8, 32, 4, 2048, 5632, 32000, 2048, 16, 1e4}}')],
          smaller="8 of 22 layers, as of TinyLlama 1.1B, batch 2 of 16, length 128 of 2048"),
    Model("Llama 3 8B LoRA", "lora_llama.cpp", **words(32000), settings={"batch": 2, "length": 128, "size": "8B"},
          edits=[('{"8B", {32, 32, 8, 4096, 14336, 128256, 2048, 16, 5e5}}',
                  '{"8B", {1, 32, 8, 4096, 14336, 32000, 2048, 16, 5e5}}')],
          smaller="1 of 32 layers, 32000 of 128256 words, as of Llama 3 8B, batch 2 of 16, length 128 of 2048"),
    Model("Mixtral 8x7B", "mixtral.cpp", expected=math.log(32000) + 0.02, why="ln(32000) + 0.02 for balance",
          settings={"batch": 2},
          edits=[('{"8x7B", {32, 32, 8, 4096, 14336, 8, 32000, 2048, 8}}',
                  '{"8x7B", {1, 32, 8, 4096, 3584, 8, 32000, 128, 8}}')],
          smaller="1 of 32 layers, experts of 3584 instead of 14336 features (747 GB do not fit, and of one layer 23), "
                  "batch 2 of 8, length 128 of 2048"),
    Model("GPT-2 1558M", "gpt2.cpp", **words(50257), settings={"batch": 2, "size": "1558M"},
          edits=[('{"1558M", {48, 25, 1600, 50257, 1024, 64}}', '{"1558M", {13, 25, 1600, 50257, 128, 64}}')],
          smaller="13 of 48 layers (25 GB do not fit), batch 2 of 64, length 128 of 1024"),
    Model("BERT-Huge-32", "bert.cpp", **BERT, settings={"batch": 4, "size": "huge-32"},
          edits=[('{"huge-32", {32, 16, 1280, 30522, 512, 64}}', '{"huge-32", {32, 16, 1280, 30522, 64, 64}}')],
          smaller="batch 4 of 64, length 64 of 512"),
    Model("BERT-Huge-48", "bert.cpp", **BERT, settings={"batch": 4, "size": "huge-48"},
          edits=[('{"huge-48", {48, 16, 1280, 30522, 512, 64}}', '{"huge-48", {16, 16, 1280, 30522, 64, 64}}')],
          smaller="16 of 48 layers (16 GB do not fit), batch 4 of 64, length 64 of 512"),
    Model("ViT-Huge-32", "vit.cpp", **both(images(4, 112), settings={"size": "huge-32"}),
          edits=[('{"huge-32", {32, 16, 1280, 14, 224, 1000, 256}}',
                  '{"huge-32", {32, 16, 1280, 14, 112, 1000, 256}}')],
          smaller="batch 4 of 256, images of 112 x 112 instead of 224 x 224"),
    Model("ViT-Huge-48", "vit.cpp", **both(images(4, 112), settings={"size": "huge-48"}),
          edits=[('{"huge-48", {48, 16, 1280, 14, 224, 1000, 256}}',
                  '{"huge-48", {16, 16, 1280, 14, 112, 1000, 256}}')],
          smaller="16 of 48 layers (15 GB do not fit), batch 4 of 256, images of 112 x 112 instead of 224 x 224"),
    # Beside 11 GB of parameters and moments one image fits. Of single images no loss says anything: a step on one undoes
    # what was learnt of all others (0.001 and 36 by turns).
    Model("Swin-Huge-32", "swin.cpp", **both(images(4), settings={"size": "huge-32"}),
          edits=[('{"huge-32", {{2, 2, 26, 2}, 320, 32, 7, 224, 1000, 64}}',
                  '{"huge-32", {{2, 2, 6, 2}, 320, 32, 7, 224, 1000, 64}}')],
          smaller="6 of 26 blocks of the third stage (11 GB leave room for one image), batch 4 of 64"),
    Model("Swin-Huge-48", "swin.cpp", **both(images(4), settings={"size": "huge-48"}),
          edits=[('{"huge-48", {{2, 2, 42, 2}, 320, 32, 7, 224, 1000, 64}}',
                  '{"huge-48", {{2, 2, 8, 2}, 320, 32, 7, 224, 1000, 64}}')],
          smaller="8 of 42 blocks of the third stage (16 GB do not fit), batch 4 of 64"),
    Model("T5-Large", "t5.cpp", **words(32128), settings={"batch": 2},
          edits=[('{"large", {24, 16, 1024, 4096, 32128, 512, 128, 64}}',
                  '{"large", {24, 16, 1024, 4096, 32128, 64, 64, 64}}')],
          smaller="batch 2 of 64, lengths 64 and 64 of 512 and 128"),
]
