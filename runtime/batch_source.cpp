#include "runtime/batch_source.h"

#include <fmt/format.h>

#include <cmath>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "dsl/base/error.h"
#include "runtime/arena.h"
#include "runtime/host_tensor.h"
#include "runtime/sample_order.h"
#include "runtime/text_corpus.h"

namespace hetsynth {
namespace {

using Kind = DataSource::Kind;

bool is_text(Kind kind) { return kind == Kind::text_tokens || kind == Kind::text_targets || kind == Kind::text_next; }

/// Standard normal (Box and Muller 1958), rounded to float32 as the devices see it. `stream` tells different tensors
/// apart.
double normal_at(uint64_t seed, int stream, uint64_t index) {
  constexpr uint64_t data_step = uint64_t(1)
                                 << 31;  // no training step: streams of dropout and of starting values stay apart
  const double u = 1 - philox_uniform(seed, stream, 2 * index, data_step);
  const double v = philox_uniform(seed, stream, 2 * index + 1, data_step);
  return static_cast<float>(std::sqrt(-2 * std::log(u)) * std::cos(2 * M_PI * v));
}

class DeclaredData : public BatchSource {
 public:
  DeclaredData(const Program& program, const DataOptions& options) : seed_(options.seed) {
    for (const Node& node : program.nodes) {
      if (node.kind != NodeKind::input) continue;
      check_input(node);
      if (node.data.kind == Kind::synthetic_normal) add_features(node);
      if (is_text(node.data.kind)) open_text(node, options);
    }
    for (const Node& node : program.nodes) {
      if (node.kind == NodeKind::input && node.data.kind == Kind::synthetic_label) make_teacher(class_count(node));
    }
  }

  void fill(const Node& input, std::span<const Range> ranges, int64_t step, std::span<std::byte> out) const override {
    HETSYNTH_CHECK(out.size() == static_cast<size_t>(part_elements(ranges) * size_bytes(input.type.dtype)),
                   "the buffer fits the part");
    const int64_t batch = input.type.shape[0];
    const int64_t per_sample = batch == 0 ? 0 : element_count(input.type.shape) / batch;
    for_each_run(input.type.shape, ranges, [&](int64_t global, int64_t local, int64_t count) {
      // A run along the only dimension covers several samples; any other run lies in one.
      while (count > 0) {
        const int64_t sample = global / per_sample, inside = global % per_sample;
        const int64_t part = std::min(count, per_sample - inside);
        fill_run(input, step * batch + sample, inside, part, out.data() + local * size_bytes(input.type.dtype));
        global += part, local += part, count -= part;
      }
    });
  }

  std::string description() const override {
    if (!corpus_) return "synthetic samples";
    if (corpus_->files() == 1) return fmt::format("text {}, {}", corpus_->path(), text_of_bytes(corpus_->bytes()));
    return fmt::format("text {}, {} files, {}", corpus_->path(), corpus_->files(), text_of_bytes(corpus_->bytes()));
  }

 private:
  struct Features {
    int stream;
    int64_t per_sample;
  };

  static int stream_of(const std::string& name) {
    uint64_t hash = 0;
    for (unsigned char c : name) hash = mix(hash, c);
    return static_cast<int>(hash >> 33);
  }

  static void check_input(const Node& node) {
    if (node.data.kind == Kind::none) {
      throw UserError({node.where, "input", "input " + node.name + " has no source of data", "", "",
                       "make it with text_batch, text_next_byte or synthetic_batch"});
    }
    const bool integer = node.data.kind != Kind::synthetic_normal;
    if (node.type.shape.empty() || node.type.dtype != (integer ? DType::i32 : DType::f32)) {
      throw UserError({node.where, "input", "input " + node.name + " cannot hold its data",
                       integer ? "i32 with samples in dimension 0" : "f32 with samples in dimension 0", text(node.type),
                       ""});
    }
  }

  void add_features(const Node& node) {
    const int64_t batch = node.type.shape[0];
    features_.push_back({stream_of(node.name), batch == 0 ? 0 : element_count(node.type.shape) / batch});
  }

  void open_text(const Node& node, const DataOptions& options) {
    if (options.path.empty()) {
      throw UserError({node.where, "data", "input " + node.name + " reads text, and no data were named", "", "",
                       "name a text file or a folder with --data"},
                      ExitCode::usage);
    }
    if (!corpus_) corpus_ = TextCorpus::open(options.path);
    const int64_t needed = node.data.length + 1;  // the window and the byte that follows it
    if (node.data.length < 1 || corpus_->bytes() < needed) {
      throw UserError({{options.path, 0, 0},
                       "data",
                       "the text is shorter than one sample of input " + node.name,
                       fmt::format("at least {} bytes", needed),
                       fmt::format("{} bytes", corpus_->bytes()),
                       "use a longer text or shorter windows"});
    }
  }

  void fill_run(const Node& input, int64_t sample, int64_t inside, int64_t count, std::byte* out) const {
    switch (input.data.kind) {
      case Kind::none:
        return;
      case Kind::text_tokens:
        return fill_text(input, sample, inside, count, out);
      case Kind::text_targets:
        return fill_text(input, sample, inside + 1, count, out);
      case Kind::text_next:
        return fill_text(input, sample, input.data.length, count, out);
      case Kind::synthetic_normal:
        return fill_normal(input, sample, inside, count, out);
      case Kind::synthetic_label: {
        const int32_t label = label_of(input, sample);
        for (int64_t i = 0; i < count; ++i) reinterpret_cast<int32_t*>(out)[i] = label;
        return;
      }
    }
  }

  /// First byte of a sample's window. Every epoch uses each window once, in its own order, and shifts the grid of
  /// windows by what is left over.
  int64_t window_start(int64_t sample, int64_t length) const {
    const int64_t windows = (corpus_->bytes() - 1) / length;
    const int64_t left_over = corpus_->bytes() - 1 - windows * length;
    const int64_t epoch = sample / windows;
    const uint64_t key = mix(seed_, static_cast<uint64_t>(epoch));
    const int64_t shift = static_cast<int64_t>(mix(key, 0) % static_cast<uint64_t>(left_over + 1));
    return permuted(sample % windows, windows, key) * length + shift;
  }

  void fill_text(const Node& input, int64_t sample, int64_t inside, int64_t count, std::byte* out) const {
    const int64_t start = window_start(sample, input.data.length) + inside;
    std::vector<unsigned char> bytes(static_cast<size_t>(count));
    corpus_->read(start, bytes);
    for (int64_t i = 0; i < count; ++i) {
      const int32_t token = bytes[static_cast<size_t>(i)];
      if (input.data.classes > 0 && token >= input.data.classes) {
        throw UserError({{corpus_->path(), 0, 0},
                         "data",
                         "the text has a byte that the model has no token for",
                         fmt::format("bytes below {}", input.data.classes),
                         fmt::format("{} at {}", token, corpus_->place_of(start + i)),
                         "raise the model's vocabulary to 256"});
      }
      reinterpret_cast<int32_t*>(out)[i] = token;
    }
  }

  void fill_normal(const Node& input, int64_t sample, int64_t inside, int64_t count, std::byte* out) const {
    const int64_t per_sample = element_count(input.type.shape) / input.type.shape[0];
    for (int64_t i = 0; i < count; ++i) {
      const auto index = static_cast<uint64_t>(sample * per_sample + inside + i);
      reinterpret_cast<float*>(out)[i] = static_cast<float>(normal_at(seed_, stream_of(input.name), index));
    }
  }

  /// Weights [classes, features] of the linear teacher: standard normal, the same for every run seed.
  void make_teacher(int64_t classes) {
    std::vector<double>& weights = teachers_[classes];
    if (!weights.empty()) return;
    for (int64_t c = 0; c < classes; ++c) {
      for (const Features& x : features_) {
        for (int64_t f = 0; f < x.per_sample; ++f) {
          weights.push_back(normal_at(teacher_seed, x.stream, static_cast<uint64_t>(c * x.per_sample + f)));
        }
      }
    }
  }

  /// The class to which the teacher gives the greatest score.
  int32_t label_of(const Node& input, int64_t sample) const {
    const int64_t classes = class_count(input);
    std::vector<double> sample_features;
    for (const Features& x : features_) {
      for (int64_t f = 0; f < x.per_sample; ++f) {
        sample_features.push_back(normal_at(seed_, x.stream, static_cast<uint64_t>(sample * x.per_sample + f)));
      }
    }
    auto weight = teachers_.at(classes).begin();
    int32_t best = 0;
    double best_score = -HUGE_VAL;
    for (int64_t c = 0; c < classes; ++c) {
      double score = 0;
      for (const double value : sample_features) score += value * *weight++;
      if (score > best_score) best_score = score, best = static_cast<int32_t>(c);
    }
    return best;
  }

  static int64_t class_count(const Node& node) { return std::max<int64_t>(node.data.classes, 1); }

  static constexpr uint64_t teacher_seed = 0x7EAC4E5;
  const uint64_t seed_;
  std::optional<TextCorpus> corpus_;
  std::vector<Features> features_;                   ///< inputs of kind synthetic_normal, in program order
  std::map<int64_t, std::vector<double>> teachers_;  ///< by number of classes
};

}  // namespace

std::unique_ptr<BatchSource> open_data(const Program& program, const DataOptions& options) {
  return std::make_unique<DeclaredData>(program, options);
}

Bindings whole_batch(const Program& program, const BatchSource& data, int64_t step) {
  Bindings out;
  for (const Node& node : program.nodes) {
    if (node.kind != NodeKind::input) continue;
    std::vector<Range> all;
    for (int64_t extent : node.type.shape) all.push_back({0, extent});
    HostTensor whole(node.type);
    data.fill(node, all, step, whole.bytes);
    out[node.id] = to_array(whole);
  }
  return out;
}

}  // namespace hetsynth
