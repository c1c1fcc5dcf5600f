// Batches of data: what a model asks for. Where the values come from is said at run time, by --data.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "hetsynth/tensor.h"

namespace hetsynth {

// Dimension 0 of every tensor runs over the samples of the batch. Integers are int32, all else float32. A model has the
// batch of one of these functions, or inputs of its own; they throw UserError for sizes below 1.

/// Which values an input takes. Data with others are refused.
struct InputOptions {
  /// i32: from 0 to classes - 1, as indices and labels do.
  int64_t classes = 0;
  /// The least and the greatest value, both included. i32: both, or `classes` in their place. f32: none, one or both.
  std::optional<double> lowest = {}, highest = {};
  /// i32: one value besides, for what does not count, such as -100 among labels.
  std::optional<int64_t> ignored = {};
};
/// An input of any kind: what the data given by --data have under its name (docs/data.md), as it is there. `shape`
/// begins with the batch, the same one for all inputs of a model, whose samples belong together by their number.
/// `dtype`: f32 or i32. Without --data it is made up: f32 standard normal, or uniform between bounds; i32 uniform, an
/// eighth of it `ignored`. Throws UserError for a name that is taken, another batch, or values that are not said.
Tensor input(const std::string& name, const std::vector<int64_t>& shape, DType dtype, const InputOptions& options = {},
             std::source_location where = std::source_location::current());

/// Windows of tokens and the token that each should predict.
struct TextBatch {
  Tensor tokens;   ///< int32 [batch, length]
  Tensor targets;  ///< int32 [batch, length], or [batch]
};
/// Windows of bytes of the text given by --data, and the same windows moved one byte on, int32 [batch, length].
TextBatch text_batch(int64_t batch, int64_t length, std::source_location where = std::source_location::current());
/// Windows of `length` bytes, int32 [batch, length], and the one byte that follows each, int32 [batch].
TextBatch text_next_byte(int64_t batch, int64_t length, std::source_location where = std::source_location::current());
/// Windows of tokens in [0, vocabulary) and the same windows moved one token on, int32 [batch, length]. --data: text
/// (its bytes), llm.c token files, npy. Without --data as synthetic_tokens.
TextBatch token_batch(int64_t batch, int64_t length, int64_t vocabulary,
                      std::source_location where = std::source_location::current());
/// The same, of a fixed random Markov chain whose every token has three likely successors, with Zipf's distribution.
/// The least loss is about 1.8 nats per token for 256 tokens, and 2.2 for 50,000.
TextBatch synthetic_tokens(int64_t batch, int64_t length, int64_t vocabulary,
                           std::source_location where = std::source_location::current());

struct LabelledBatch {
  Tensor samples;
  Tensor labels;  ///< int32 [batch], in [0, classes)
};
/// Standard normal samples, float32 [batch, features], and the class a fixed random linear teacher gives them.
LabelledBatch synthetic_batch(int64_t batch, int64_t features, int64_t classes,
                              std::source_location where = std::source_location::current());
/// Images, float32 [batch, channels, height, width] in [-1, 1], and their classes. --data: IDX (MNIST), CIFAR-10 and
/// CIFAR-100, npy. Without --data as synthetic_images.
LabelledBatch image_batch(int64_t batch, int64_t channels, int64_t height, int64_t width, int64_t classes,
                          std::source_location where = std::source_location::current());
/// Images of mean 0 and variance 1: a coarse pattern of the class, and as much noise.
LabelledBatch synthetic_images(int64_t batch, int64_t channels, int64_t height, int64_t width, int64_t classes,
                               std::source_location where = std::source_location::current());
/// Sequences of tokens, int32 [batch, length], and their classes: text classification. --data: npy. Without it, Markov
/// chains that differ by class.
LabelledBatch labelled_tokens(int64_t batch, int64_t length, int64_t vocabulary, int64_t classes,
                              std::source_location where = std::source_location::current());

/// Sentences and their translations. Token 1 begins a translation.
struct TranslationBatch {
  Tensor source;   ///< int32 [batch, source_length]
  Tensor input;    ///< int32 [batch, target_length]: the translation moved right by one, what a decoder is given
  Tensor targets;  ///< int32 [batch, target_length]: the translation, what it is to say
};
/// --data: npy. Without it, the source backwards and word by word. Vocabularies have 3 entries or more.
TranslationBatch translation_batch(int64_t batch, int64_t source_length, int64_t target_length,
                                   int64_t source_vocabulary, int64_t target_vocabulary,
                                   std::source_location where = std::source_location::current());

/// Rows of a table with numeric and categorical columns and a click or no click.
struct TableBatch {
  Tensor numeric;                  ///< float32 [batch, numeric columns]; not defined if there are none
  std::vector<Tensor> categories;  ///< int32 [batch] each, in [0, its size)
  Tensor labels;                   ///< float32 [batch], 0 or 1
};
/// --data: Criteo's tab-separated rows. Without it, rows labelled by a fixed random linear teacher.
TableBatch table_batch(int64_t batch, int64_t numeric_columns, const std::vector<int64_t>& category_sizes,
                       std::source_location where = std::source_location::current());

/// A named group of real features.
struct Feature {
  std::string name;
  int64_t width = 1;
};
struct FeatureBatch {
  std::vector<Tensor> features;  ///< float32 [batch, width] each
  Tensor targets;                ///< float32 [batch]
};
/// Groups of features and the number to predict from them. --data: npy, a file per group. Without it, standard normal
/// features and the answers of a fixed random teacher in [-1, 1].
FeatureBatch feature_batch(int64_t batch, const std::vector<Feature>& features,
                           std::source_location where = std::source_location::current());

}  // namespace hetsynth
