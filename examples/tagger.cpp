// A tagger of words: names of people, places and organisations in sentences, by the window network of Collobert et al.
// (2011, "Natural language processing (almost) from scratch"): embeddings of a word and of how it is capitalised, five
// words at a time through a hidden layer with a hard tanh, and a tag for each word. Sentences are padded to one length.
//   hetsynth run tagger.cpp --set size=tiny
//   hetsynth run tagger.cpp --data FOLDER      (words.npy, caps.npy, mask.npy, tags.npy: [sentences, length] each)
//   hetsynth run tagger.cpp --data sentences.jsonl
// Model: Tagger
#include "hetsynth/hetsynth.h"
using namespace hetsynth;

void model() {
  bool tiny = choice<bool>("size", "published", {{"published", false}, {"tiny", true}});
  int64_t vocabulary = option("vocabulary", tiny ? 60 : 100000, "words that are known");
  int64_t width = option("width", tiny ? 10 : 50, "features of a word");
  int64_t hidden = option("hidden", tiny ? 16 : 300, "features of a window of words");
  int64_t kinds = option("tags", 9, "tags: outside, and beginning and inside of four kinds of names");
  int64_t length = option("length", tiny ? 6 : 64, "words of a sentence, with what fills it up");
  int64_t batch = option("batch", tiny ? 12 : 128, "sentences per step");
  double lr = option("lr", tiny ? 1e-2 : 1e-3, "learning rate");
  constexpr int64_t ways = 4, ways_width = 5, window = 5;

  Tensor words = input("words", {batch, length}, i32, {.classes = vocabulary});
  Tensor caps = input("caps", {batch, length}, i32, {.classes = ways});
  Tensor mask = input("mask", {batch, length}, f32, {.lowest = 0, .highest = 1});
  Tensor tags = input("tags", {batch, length}, i32, {.classes = kinds, .ignored = -100});

  Tensor word = embedding(parameter("words.table", {vocabulary, width}, normal(0.1)), words);
  Tensor way = embedding(parameter("caps.table", {ways, ways_width}, normal(0.1)), caps);
  Tensor x = concat({word, way}, -1) * reshape(mask, {batch, length, 1});  // what fills a sentence up adds nothing
  Tensor weight = parameter("window.weight", {hidden, width + ways_width, window}, normal(0.1));
  Tensor bias = parameter("window.bias", {hidden, 1}, zeros());
  Tensor seen = clamp(conv1d(transpose(x, {0, 2, 1}), weight, {.padding = window / 2}) + bias, -1, 1);
  Tensor logits = einsum("bhl,hk->blk", seen, parameter("tags.weight", {hidden, kinds}, normal(0.05)));
  logits = logits + parameter("tags.bias", {kinds}, zeros());
  output("logits", logits);
  minimize(cross_entropy(logits, tags, {.ignored_label = -100}), AdamW{.learning_rate = lr});
}
