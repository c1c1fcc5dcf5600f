#include "runtime/data/batch_source.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "dsl/base/error.h"
#include "dsl/base/hash.h"
#include "runtime/data/dataset.h"
#include "runtime/data/sample_order.h"
#include "runtime/data/synthetic.h"
#include "runtime/rank/host_tensor.h"

namespace hetsynth {
namespace {

using Kind = DataSource::Kind;

bool is_real(Kind kind) {
  return kind == Kind::synthetic_normal || kind == Kind::image || kind == Kind::numeric || kind == Kind::response;
}

bool is_text(Kind kind) { return kind == Kind::text_tokens || kind == Kind::text_targets || kind == Kind::text_next; }

int64_t samples_per_step(const Node& input) { return global_sample(input, 1, 0) - global_sample(input, 0, 0); }

/// A hash of how many samples there are, and of all of them if they are few, of some spread over them if not.
std::string data_fingerprint(const Dataset& data, const Node& input, int64_t inputs) {
  constexpr int64_t most_reads = 4096, most_bytes = int64_t{16} << 20;
  const int64_t count = data.samples(input), batch = std::max<int64_t>(1, input.type.shape[0]);
  const int64_t elements = element_count(input.type.shape) / batch;
  const int64_t bytes = std::max<int64_t>(1, elements * size_bytes(input.type.dtype));
  const int64_t looked_at = std::clamp<int64_t>(std::min(most_reads, most_bytes / bytes) / inputs, 2, count + 1);
  std::string all = fmt::format("{} {} {}\n", int(input.data.kind), count, elements);
  std::vector<std::byte> sample(static_cast<size_t>(elements * size_bytes(input.type.dtype)));
  for (int64_t i = 0; i < std::min(looked_at, count); ++i) {
    const int64_t index =
        looked_at >= count ? i : static_cast<int64_t>(static_cast<__int128>(i) * (count - 1) / (looked_at - 1));
    try {
      data.read(input, {index, 0}, 0, elements, sample);
      all += content_hash({reinterpret_cast<const char*>(sample.data()), sample.size()});
    } catch (const UserError&) {
      all += "no sample";  // told when the run comes to it
    }
  }
  return content_hash(all);
}

/// The inputs alone, each as one batch of samples: data know nothing of turns.
Program as_batches(const Program& program) {
  Program out;
  for (const Node& node : program.nodes)
    if (node.kind == NodeKind::input) out.nodes.push_back(as_one_batch(node));
  return out;
}

class DeclaredData : public BatchSource {
 public:
  DeclaredData(const Program& declared, const DataOptions& options)
      : seed_(options.seed),
        first_step_(options.first_step),
        seen_samples_(options.seen_samples),
        declared_(as_batches(declared)),
        synthetic_(declared_, options.seed) {
    const Program& program = declared_;
    const std::string path = options.path == "synthetic" ? "" : options.path;
    std::vector<const Node*> text_inputs;
    for (const Node& node : program.nodes) {
      check_input(node);
      if (node.micro_batch.first_sample == 0) inputs_.push_back(node);
      if (is_text(node.data.kind)) text_inputs.push_back(&node);
    }
    const bool files = !file_inputs(program).empty();
    if (!text_inputs.empty()) text_ = open_needed_text(text_inputs, path);
    if (files && !path.empty()) files_ = open_dataset(program, path);
    if (!path.empty() && !files && text_inputs.empty()) {
      throw UserError({{path, 0, 0},
                       "data",
                       "the model makes its samples up and reads no data",
                       "no --data",
                       "",
                       "leave --data out, or let the model ask for data, as with input or image_batch"},
                      ExitCode::usage);
    }
  }

  void fill(const Node& input, std::span<const Range> ranges, int64_t step, std::span<std::byte> out) const override {
    HETSYNTH_CHECK(out.size() == static_cast<size_t>(part_elements(ranges) * size_bytes(input.type.dtype)),
                   "the buffer fits the part");
    const Node& one_batch = declared(input);
    const int64_t batch = sample_count(input);
    const int64_t per_sample = batch == 0 ? 0 : element_count(input.type.shape) / batch;
    const auto element_bytes = static_cast<size_t>(size_bytes(input.type.dtype));
    for_each_run(input.type.shape, ranges, [&](int64_t global, int64_t local, int64_t count) {
      // A run along the only dimension covers several samples; any other run lies in one.
      while (count > 0) {
        const int64_t sample = global / per_sample, inside = global % per_sample;
        const int64_t part = std::min(count, per_sample - inside);
        fill_run(one_batch, step, first_sample(input, step) + sample, inside, part,
                 out.subspan(static_cast<size_t>(local) * element_bytes, static_cast<size_t>(part) * element_bytes));
        global += part, local += part, count -= part;
      }
    });
  }

  std::string description() const override {
    if (text_) return text_->description();
    return files_ ? files_->description() : "synthetic samples";
  }

  int64_t first_sample(const Node& input, int64_t step) const override {
    if (step < first_step_) return global_sample(input, step, 0);
    // Inputs of one step may have different numbers of samples; they have seen as many steps.
    const int64_t seen = static_cast<int64_t>(static_cast<__int128>(seen_samples_) * samples_per_step(input) /
                                              samples_per_step(inputs_.front()));
    return seen + global_sample(input, step - first_step_, 0);
  }

  int64_t samples_of_epoch(const Node& input) const override {
    const Dataset* const data = dataset_of(input);
    return data ? data->samples(declared(input)) : 0;
  }

  std::string fingerprint() const override {
    std::string all;
    for (const Node& input : inputs_) {
      const Dataset* const data = dataset_of(input);
      all += data ? data_fingerprint(*data, input, static_cast<int64_t>(inputs_.size())) : "synthetic";
      all += ' ';
    }
    return content_hash(all);
  }

  TokenOrigin origin() const override {
    const TokenOrigin of_files = files_ ? files_->origin() : TokenOrigin();
    return of_files.known() || !text_ ? of_files : text_->origin();
  }

 private:
  static void check_input(const Node& node) {
    if (node.data.kind == Kind::none) {
      throw UserError({node.where, "input", "input " + node.name + " has no source of data", "", "",
                       "make it with a function of data.h, such as input or image_batch"});
    }
    // Inputs with names of the model's own have the type that it says.
    const bool integer = node.data.kind == Kind::named ? node.type.dtype == DType::i32 : !is_real(node.data.kind);
    if (node.type.shape.empty() || node.type.dtype != (integer ? DType::i32 : DType::f32)) {
      throw UserError({node.where, "input", "input " + node.name + " cannot hold its data",
                       integer ? "i32 with samples in dimension 0" : "f32 with samples in dimension 0", text(node.type),
                       ""});
    }
  }

  static std::unique_ptr<Dataset> open_needed_text(const std::vector<const Node*>& inputs, const std::string& path) {
    if (!path.empty()) return open_text_data(inputs, path);
    const Node& first = *inputs.front();
    throw UserError({first.where, "data", "input " + first.name + " reads text, and no data were named", "", "",
                     "name a text file or a folder with --data"},
                    ExitCode::usage);
  }

  /// The input as one batch.
  const Node& declared(const Node& input) const {
    if (input.micro_batch.turns <= 1) return input;
    const auto found = std::ranges::find(declared_.nodes, input.id, &Node::id);
    HETSYNTH_CHECK(found != declared_.nodes.end(), "data are asked for inputs that they were opened for");
    return *found;
  }

  /// Null: the input is made up.
  const Dataset* dataset_of(const Node& input) const {
    return is_text(input.data.kind) ? text_.get() : input.data.files ? files_.get() : nullptr;
  }

  void fill_run(const Node& input, int64_t step, int64_t sample, int64_t inside, int64_t count,
                std::span<std::byte> out) const {
    const Dataset* data = dataset_of(input);
    if (!data) return synthetic_.fill(input, sample, inside, count, out.data());
    // Every epoch uses each sample once, in an order of its own.
    const int64_t count_of_epoch = data->samples(input);
    const uint64_t key = mix(seed_, static_cast<uint64_t>(sample / count_of_epoch));
    try {
      data->read(input, {permuted(sample % count_of_epoch, count_of_epoch, key), key}, inside, count, out);
    } catch (const UserError& error) {
      Diagnostic diagnostic = error.diagnostic();
      diagnostic.notes.push_back(
          {input.where, fmt::format("input {} needs it in step {}, sample {} of the run", input.name, step, sample),
           ""});
      throw UserError(std::move(diagnostic), error.code());
    }
  }

  const uint64_t seed_;
  const int64_t first_step_, seen_samples_;
  const Program declared_;    ///< its inputs
  std::vector<Node> inputs_;  ///< of the first micro-batch
  const SyntheticData synthetic_;
  std::unique_ptr<Dataset> text_;   ///< of inputs that read text
  std::unique_ptr<Dataset> files_;  ///< of inputs that read whatever was named; none: they are made up
};

}  // namespace

std::unique_ptr<BatchSource> open_data(const Program& program, const DataOptions& options) {
  return std::make_unique<DeclaredData>(program, options);
}

std::optional<int64_t> steps_of_epoch(const Program& program, const BatchSource& data) {
  std::optional<int64_t> out;
  for (const Node& node : program.nodes) {
    if (node.kind != NodeKind::input) continue;
    const int64_t samples = data.samples_of_epoch(node);
    if (samples > 0) out = std::min(out.value_or(samples), samples / samples_per_step(node));
  }
  return out;
}

int64_t samples_before(const Program& program, const BatchSource& data, int64_t step) {
  for (const Node& node : program.nodes)
    if (node.kind == NodeKind::input && !node.type.shape.empty()) return data.first_sample(node, step);
  return 0;
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
