// Data that nobody has to fetch: samples made up by counting, with something in them to learn.
#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <vector>

#include "dsl/ir/program.h"

namespace hetsynth {

/// Every value is a pure function of (seed, input, sample, place inside of the sample). What is to be learnt (class
/// patterns, successors of a token, teachers) is the same for every seed, so that another seed gives unseen samples of
/// the same task.
///  - tokens: a Markov chain. Each token has three likely successors (probabilities 1/2, 1/4, 1/8); otherwise the next
///    one is drawn anew by Zipf's law. With a token_label beside it, each class has its own successors.
///  - images: (pattern of the class on a 4 x 4 grid + noise) / sqrt(2), all of unit variance.
///  - pairs: the target is the source backwards, each token replaced by its translation.
///  - numeric, category: normal, Zipf; the response is a linear teacher's answer to the row, through a threshold or
///    tanh. The teacher sees the first 64 features of each numeric input.
///  - named: numbers are normal, or uniform between two bounds, or half of a normal distribution beyond one; integers
///    are uniform in their range, an eighth of them ignored. Nothing is to be learnt of them.
///  - synthetic_normal, synthetic_label: normal, and the class to which a linear teacher gives the greatest score.
class SyntheticData {
 public:
  SyntheticData(const Program& program, uint64_t seed);
  /// Elements [inside, inside + count) of sample `sample` of an input, 4 bytes each.
  void fill(const Node& input, int64_t sample, int64_t inside, int64_t count, std::byte* out) const;

 private:
  struct Features {
    int stream;
    int64_t per_sample;
  };
  /// A numeric or categorical input that the teacher of a response sees.
  struct Column {
    uint64_t stream;
    int64_t width;    ///< features; 0: categorical
    int64_t classes;  ///< of a categorical column
  };
  void fill_tokens(const Node& input, int64_t sample, int64_t inside, int64_t count, int32_t* out) const;
  void fill_image(const Node& input, int64_t sample, int64_t inside, int64_t count, float* out) const;
  /// Elements [first, first + count) of all samples.
  void fill_named(const Node& input, int64_t first, int64_t count, std::byte* out) const;
  int32_t pair_token(const Node& input, int64_t sample, int64_t position) const;
  float response(const Node& input, int64_t sample) const;
  int64_t category(uint64_t stream, int64_t classes, int64_t sample) const;
  double feature(uint64_t stream, int64_t width, int64_t sample, int64_t place) const;
  int32_t label(int64_t sample, int64_t classes) const;
  const std::vector<double>& teacher(int64_t classes) const;
  int32_t taught_label(int64_t classes, int64_t sample) const;

  const uint64_t seed_;
  int64_t token_classes_ = 0;  ///< of the token_label; 0: there is none
  int64_t image_classes_ = 1;
  int64_t source_length_ = 1, source_classes_ = 3;  ///< of the pairs' sources
  std::vector<Column> columns_;
  std::vector<Features> features_;  ///< inputs of kind synthetic_normal, in program order
  mutable std::mutex teachers_mutex_;
  mutable std::map<int64_t, std::vector<double>> teachers_;  ///< by number of classes
};

}  // namespace hetsynth
