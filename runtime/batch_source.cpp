#include "runtime/batch_source.h"

#include <fmt/format.h>

#include <optional>
#include <utility>
#include <vector>

#include "dsl/base/error.h"
#include "runtime/arena.h"
#include "runtime/data/synthetic.h"
#include "runtime/host_tensor.h"
#include "runtime/sample_order.h"
#include "runtime/text_corpus.h"

namespace hetsynth {
namespace {

using Kind = DataSource::Kind;

bool is_real(Kind kind) {
  return kind == Kind::synthetic_normal || kind == Kind::image || kind == Kind::numeric || kind == Kind::response;
}

bool is_text(Kind kind) { return kind == Kind::text_tokens || kind == Kind::text_targets || kind == Kind::text_next; }

class DeclaredData : public BatchSource {
 public:
  DeclaredData(const Program& program, const DataOptions& options)
      : seed_(options.seed), synthetic_(program, options.seed) {
    for (const Node& node : program.nodes) {
      if (node.kind != NodeKind::input) continue;
      check_input(node);
      if (is_text(node.data.kind)) open_text(node, options);
      if (node.data.files && !options.path.empty()) {
        throw UserError({{options.path, 0, 0},
                         "data",
                         "files cannot fill input " + node.name,
                         "",
                         "",
                         "leave out --data: the model then trains on synthetic samples"});
      }
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
  static void check_input(const Node& node) {
    if (node.data.kind == Kind::none) {
      throw UserError({node.where, "input", "input " + node.name + " has no source of data", "", "",
                       "make it with a function of data.h, such as text_batch or image_batch"});
    }
    const bool integer = !is_real(node.data.kind);
    if (node.type.shape.empty() || node.type.dtype != (integer ? DType::i32 : DType::f32)) {
      throw UserError({node.where, "input", "input " + node.name + " cannot hold its data",
                       integer ? "i32 with samples in dimension 0" : "f32 with samples in dimension 0", text(node.type),
                       ""});
    }
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
      case Kind::text_tokens:
        return fill_text(input, sample, inside, count, out);
      case Kind::text_targets:
        return fill_text(input, sample, inside + 1, count, out);
      case Kind::text_next:
        return fill_text(input, sample, input.data.length, count, out);
      default:
        return synthetic_.fill(input, sample, inside, count, out);
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

  const uint64_t seed_;
  const SyntheticData synthetic_;
  std::optional<TextCorpus> corpus_;
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
