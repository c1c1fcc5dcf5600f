#include "runtime/data/synthetic.h"

#include <algorithm>
#include <cmath>

#include "dsl/ir/interpreter.h"
#include "runtime/data/dataset.h"
#include "runtime/data/sample_order.h"

namespace hetsynth {
namespace {

using Kind = DataSource::Kind;

/// What the task is made of: the same for every run.
constexpr uint64_t task = 0x7EAC4E5;
// Keys of the streams below a seed.
constexpr uint64_t label_stream = 1, token_stream = 2, noise_stream = 3, pair_stream = 4;
constexpr int64_t taught_features = 64;
constexpr int64_t grid = 4;  ///< a class's pattern has grid * grid fields per channel

/// Standard normal (Box and Muller 1958), rounded to float32 as the devices see it. `stream` tells different tensors
/// apart.
double normal_at(uint64_t seed, int stream, uint64_t index) {
  constexpr uint64_t data_step = uint64_t(1)
                                 << 31;  // no training step: streams of dropout and of starting values stay apart
  const double u = 1 - philox_uniform(seed, stream, 2 * index, data_step);
  const double v = philox_uniform(seed, stream, 2 * index + 1, data_step);
  return static_cast<float>(std::sqrt(-2 * std::log(u)) * std::cos(2 * M_PI * v));
}

int stream_of(const std::string& name) {
  uint64_t hash = 0;
  for (unsigned char c : name) hash = mix(hash, c);
  return static_cast<int>(hash >> 33);
}

double uniform(uint64_t bits) { return static_cast<double>(bits >> 11) * 0x1p-53; }

/// Nearly standard normal, in [-3.47, 3.47]: the sum of four uniform numbers (Irwin and Hall). Images have millions of
/// values per step, so no logarithm.
double quick_normal(uint64_t bits) {
  const auto sum =
      static_cast<double>((bits & 0xFFFF) + (bits >> 16 & 0xFFFF) + (bits >> 32 & 0xFFFF) + (bits >> 48 & 0xFFFF));
  constexpr double mean = 2 * 65535.0;
  static const double deviation = std::sqrt(4 * (65536.0 * 65536.0 - 1) / 12);
  return (sum - mean) / deviation;
}

/// A number in [0, count) with P(k) proportional to log((k + 2) / (k + 1)), nearly 1 / (k + 1).
int64_t zipf(uint64_t bits, int64_t count) {
  const double k = std::floor(std::pow(static_cast<double>(count) + 1, uniform(bits))) - 1;
  return std::clamp(static_cast<int64_t>(k), int64_t{0}, count - 1);
}

}  // namespace

SyntheticData::SyntheticData(const Program& program, uint64_t seed) : seed_(seed) {
  for (const Node& node : program.nodes) {
    if (node.kind != NodeKind::input || node.type.shape.empty()) continue;
    if (node.micro_batch.first_sample > 0) continue;  // a further micro-batch's: the same tensor
    const DataSource& data = node.data;
    const auto stream = static_cast<uint64_t>(stream_of(data_name(node)));
    const int64_t batch = sample_count(node);
    const int64_t per_sample = batch == 0 ? 0 : element_count(node.type.shape) / batch;
    if (data.kind == Kind::token_label) token_classes_ = data.classes;
    if (data.kind == Kind::image_label) image_classes_ = data.classes;
    if (data.kind == Kind::pair_source) source_length_ = data.length, source_classes_ = data.classes;
    if (data.kind == Kind::numeric) columns_.push_back({stream, per_sample, 0});
    if (data.kind == Kind::category) columns_.push_back({stream, 0, data.classes});
    if (data.kind == Kind::synthetic_normal) features_.push_back({stream_of(data_name(node)), per_sample});
  }
}

void SyntheticData::fill(const Node& input, int64_t sample, int64_t inside, int64_t count, std::byte* out) const {
  auto* const integers = reinterpret_cast<int32_t*>(out);
  auto* const reals = reinterpret_cast<float*>(out);
  const auto stream = static_cast<uint64_t>(stream_of(data_name(input)));
  const int64_t per_sample = elements_of_sample(input);
  switch (input.data.kind) {
    case Kind::tokens:
    case Kind::token_targets:
      return fill_tokens(input, sample, inside, count, integers);
    case Kind::token_label:
    case Kind::image_label:
      return void(std::fill_n(integers, count, label(sample, input.data.classes)));
    case Kind::image:
      return fill_image(input, sample, inside, count, reals);
    case Kind::pair_source:
    case Kind::pair_input:
    case Kind::pair_target:
      for (int64_t i = 0; i < count; ++i) integers[i] = pair_token(input, sample, inside + i);
      return;
    case Kind::numeric:
      for (int64_t i = 0; i < count; ++i)
        reals[i] = static_cast<float>(feature(stream, per_sample, sample, inside + i));
      return;
    case Kind::category:
      return void(std::fill_n(integers, count, static_cast<int32_t>(category(stream, input.data.classes, sample))));
    case Kind::response:
      return void(std::fill_n(reals, count, response(input, sample)));
    case Kind::synthetic_normal:
      for (int64_t i = 0; i < count; ++i) {
        const auto index = static_cast<uint64_t>(sample * per_sample + inside + i);
        reals[i] = static_cast<float>(normal_at(seed_, stream_of(data_name(input)), index));
      }
      return;
    case Kind::synthetic_label:
      return void(std::fill_n(integers, count, taught_label(std::max<int64_t>(input.data.classes, 1), sample)));
    case Kind::named:
      return fill_named(input, sample * per_sample + inside, count, out);
    case Kind::none:
    case Kind::text_tokens:
    case Kind::text_targets:
    case Kind::text_next:
      return;
  }
}

void SyntheticData::fill_named(const Node& input, int64_t first, int64_t count, std::byte* out) const {
  const DataSource& data = input.data;
  const uint64_t key = mix(seed_, static_cast<uint64_t>(stream_of(data_name(input))));
  if (input.type.dtype == DType::i32) {
    const int64_t lowest = lowest_whole(data), values = highest_whole(data) - lowest + 1;
    for (int64_t i = 0; i < count; ++i) {
      const uint64_t bits = mix(key, static_cast<uint64_t>(first + i));
      constexpr uint64_t ignored_of = 8;
      const bool ignored = data.ignored && bits % ignored_of == 0;
      const int64_t value = lowest + static_cast<int64_t>((bits / ignored_of) % static_cast<uint64_t>(values));
      reinterpret_cast<int32_t*>(out)[i] = static_cast<int32_t>(ignored ? *data.ignored : value);
    }
    return;
  }
  for (int64_t i = 0; i < count; ++i) {
    const uint64_t bits = mix(key, static_cast<uint64_t>(first + i));
    double value = quick_normal(bits);
    if (data.lowest && data.highest) {
      value = *data.lowest + uniform(bits) * (*data.highest - *data.lowest);
    } else if (data.lowest) {
      value = *data.lowest + std::abs(value);
    } else if (data.highest) {
      value = *data.highest - std::abs(value);
    }
    reinterpret_cast<float*>(out)[i] = static_cast<float>(value);
  }
}

int32_t SyntheticData::label(int64_t sample, int64_t classes) const {
  const uint64_t bits = mix(mix(seed_, label_stream), static_cast<uint64_t>(sample));
  return static_cast<int32_t>(bits % static_cast<uint64_t>(std::max<int64_t>(classes, 1)));
}

void SyntheticData::fill_tokens(const Node& input, int64_t sample, int64_t inside, int64_t count, int32_t* out) const {
  const int64_t vocabulary = input.data.classes;
  const int64_t first = inside + (input.data.kind == Kind::token_targets ? 1 : 0);
  const uint64_t key = mix(mix(seed_, token_stream), static_cast<uint64_t>(sample));
  const uint64_t chain = mix(task, static_cast<uint64_t>(token_classes_ > 0 ? 1 + label(sample, token_classes_) : 0));
  int64_t token = zipf(mix(key, 0), vocabulary);
  for (int64_t i = 0; i < first + count; ++i) {  // a chain is walked from its beginning
    if (i >= first) out[i - first] = static_cast<int32_t>(token);
    const uint64_t bits = mix(key, static_cast<uint64_t>(i) + 1);
    constexpr uint64_t successor[8] = {0, 0, 0, 0, 1, 1, 2, 3};
    const uint64_t choice = successor[bits & 7];
    token = zipf(choice == 3 ? mix(bits, 0) : mix(mix(chain, static_cast<uint64_t>(token)), choice), vocabulary);
  }
}

void SyntheticData::fill_image(const Node& input, int64_t sample, int64_t inside, int64_t count, float* out) const {
  const Shape& shape = input.type.shape;  // [batch, channels, height, width]
  const int64_t height = shape[2], width = shape[3];
  const uint64_t noise = mix(mix(seed_, noise_stream), static_cast<uint64_t>(sample));
  const uint64_t pattern = mix(task, static_cast<uint64_t>(label(sample, image_classes_)));
  for (int64_t at = inside; at < inside + count;) {
    const int64_t x = at % width, y = at / width % height, channel = at / width / height;
    const int64_t field = x * grid / width;
    const auto cell = static_cast<uint64_t>((channel * grid + y * grid / height) * grid + field);
    const double mean = quick_normal(mix(pattern, cell));
    // As far as this field of the row goes: its last x has x * grid < (field + 1) * width.
    const int64_t end = std::min(at - x + ((field + 1) * width + grid - 1) / grid, inside + count);
    for (; at < end; ++at) {
      const double value = mean + quick_normal(mix(noise, static_cast<uint64_t>(at)));
      out[at - inside] = static_cast<float>(value * M_SQRT1_2);
    }
  }
}

int32_t SyntheticData::pair_token(const Node& input, int64_t sample, int64_t position) const {
  constexpr int64_t reserved = 2;  // padding, and the beginning of a translation
  const uint64_t key = mix(mix(seed_, pair_stream), static_cast<uint64_t>(sample));
  const auto source = [&](int64_t i) {
    return reserved + zipf(mix(key, static_cast<uint64_t>(i)), source_classes_ - reserved);
  };
  if (input.data.kind == Kind::pair_source) return static_cast<int32_t>(source(position));
  if (input.data.kind == Kind::pair_input && --position < 0) return 1;
  const int64_t word = source(source_length_ - 1 - position % source_length_);
  return static_cast<int32_t>(reserved + zipf(mix(task, static_cast<uint64_t>(word)), input.data.classes - reserved));
}

double SyntheticData::feature(uint64_t stream, int64_t width, int64_t sample, int64_t place) const {
  return static_cast<float>(quick_normal(mix(mix(seed_, stream), static_cast<uint64_t>(sample * width + place))));
}

int64_t SyntheticData::category(uint64_t stream, int64_t classes, int64_t sample) const {
  return zipf(mix(mix(seed_, stream), static_cast<uint64_t>(sample)), classes);
}

float SyntheticData::response(const Node& input, int64_t sample) const {
  double score = 0, weights = 0;
  for (const Column& column : columns_) {
    const uint64_t teacher = mix(task, column.stream);
    if (column.width == 0) {
      score += quick_normal(mix(teacher, static_cast<uint64_t>(category(column.stream, column.classes, sample))));
      weights += 1;
    }
    for (int64_t f = 0; f < std::min(column.width, taught_features); ++f) {
      const double weight = quick_normal(mix(teacher, static_cast<uint64_t>(f)));
      score += weight * feature(column.stream, column.width, sample, f);
      weights += weight * weight;
    }
  }
  score /= std::sqrt(std::max(weights, 1e-30));
  return static_cast<float>(input.data.classes == 2 ? score > 0 : std::tanh(score));
}

/// Weights [classes, features] of the linear teacher: standard normal, the same for every run seed. Made when the first
/// label is asked for: a model that fits no device has a teacher that fits no memory.
const std::vector<double>& SyntheticData::teacher(int64_t classes) const {
  std::lock_guard lock(teachers_mutex_);
  std::vector<double>& weights = teachers_[classes];
  if (!weights.empty()) return weights;
  for (int64_t c = 0; c < classes; ++c) {
    for (const Features& x : features_) {
      for (int64_t f = 0; f < x.per_sample; ++f)
        weights.push_back(normal_at(task, x.stream, static_cast<uint64_t>(c * x.per_sample + f)));
    }
  }
  return weights;
}

/// The class to which the teacher gives the greatest score.
int32_t SyntheticData::taught_label(int64_t classes, int64_t sample) const {
  std::vector<double> sample_features;
  for (const Features& x : features_) {
    for (int64_t f = 0; f < x.per_sample; ++f)
      sample_features.push_back(normal_at(seed_, x.stream, static_cast<uint64_t>(sample * x.per_sample + f)));
  }
  auto weight = teacher(classes).begin();
  int32_t best = 0;
  double best_score = -HUGE_VAL;
  for (int64_t c = 0; c < classes; ++c) {
    double score = 0;
    for (const double value : sample_features) score += value * *weight++;
    if (score > best_score) best_score = score, best = static_cast<int32_t>(c);
  }
  return best;
}

}  // namespace hetsynth
