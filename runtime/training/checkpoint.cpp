#include "runtime/training/checkpoint.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <bit>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <limits>
#include <map>

#include "dsl/base/counted.h"
#include "dsl/base/error.h"
#include "dsl/base/hash.h"
#include "dsl/base/new_file.h"
#include "dsl/spmd/migration.h"
#include "runtime/rank/host_tensor.h"
#include "runtime/training/safetensors.h"

namespace hetsynth {
namespace {

namespace fs = std::filesystem;

constexpr const char* format_name = "hetsynth checkpoint 2";
constexpr const char* format_without_checksums = "hetsynth checkpoint 1";

/// What a person can do who has no whole file at `path`.
std::string mend_of_damage(const std::string& path) {
  std::error_code error;
  const std::string previous = previous_checkpoint(path);
  return fs::is_regular_file(previous, error) ? "the checkpoint before it is there: --resume " + previous : "";
}

[[noreturn]] void refuse_checkpoint(const std::string& path, const std::string& message, const std::string& expected,
                                    const std::string& found, const std::string& mend) {
  throw UserError({{path, 0, 0}, "checkpoint", message, expected, found, mend});
}

[[noreturn]] void fail_of_other_model(const std::string& path, const std::string& message, const std::string& expected,
                                      const std::string& found) {
  refuse_checkpoint(path, message, expected, found, "load it with the model, and the --set options, that wrote it");
}

/// Runs `read`; what it throws of the file is told with what can be done.
template <class Read>
auto with_mend(const std::string& path, const Read& read) {
  try {
    return read();
  } catch (const UserError& error) {
    Diagnostic diagnostic = error.diagnostic();
    if (diagnostic.mend.empty()) diagnostic.mend = mend_of_damage(path);
    if (diagnostic.mend.empty()) diagnostic.mend = "name a checkpoint that is whole, as run --checkpoint writes it";
    throw UserError(std::move(diagnostic), error.code());
  }
}

/// A number of the metadata, spelled as the writer spells it. Throws UserError for anything else: "03", "+3", " 3".
template <typename Number>
Number number_in(const std::string& path, const std::map<std::string, std::string>& metadata, const std::string& key,
                 Number least, Number largest) {
  const auto found = metadata.find(key);
  Number value = 0;
  if (found != metadata.end()) {
    const std::string& text = found->second;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    // No comparison holds for what is not a number.
    if (error == std::errc() && value >= least && value <= largest && fmt::format("{}", value) == text) return value;
  }
  refuse_checkpoint(path, "the metadata have no valid " + key, fmt::format("a number from {} to {}", least, largest),
                    found == metadata.end() ? "nothing" : "\"" + found->second + "\"", mend_of_damage(path));
}

std::string text_in(const std::map<std::string, std::string>& metadata, const std::string& key) {
  const auto found = metadata.find(key);
  return found == metadata.end() ? "" : found->second;
}

constexpr const char *tokenizer_key = "tokenizer", *tokenizer_fingerprint_key = "tokenizer_fingerprint";
constexpr const char *left_out_steps_key = "left_out_steps", *left_out_work_key = "left_out_work";

CheckpointInfo info_of(const std::string& path, const SafetensorsFile& file) {
  const std::map<std::string, std::string>& metadata = file.metadata();
  const std::string format = text_in(metadata, "format");
  if (format != format_name && format != format_without_checksums)
    refuse_checkpoint(path, "the file is no checkpoint of hetsynth", format_name, format.empty() ? "no format" : format,
                      "");
  if (format == format_name && !file.checksummed())
    refuse_checkpoint(path, "the header is damaged: checksums are missing", "one of each tensor and one of the header",
                      "", mend_of_damage(path));
  CheckpointInfo out;
  out.next_step = number_in<int64_t>(path, metadata, "next_step", 0, largest_step);
  out.seed = number_in<uint64_t>(path, metadata, "seed", 0, ~uint64_t{0});
  if (format == format_name || metadata.contains("samples"))
    out.samples = number_in<int64_t>(path, metadata, "samples", 0, largest_step);
  out.data = text_in(metadata, "data");
  out.data_fingerprint = text_in(metadata, "data_fingerprint");
  out.plan = text_in(metadata, "plan");
  out.tokenizer = tokenizer_in(metadata);
  constexpr double largest = std::numeric_limits<double>::max();
  if (metadata.contains("validation_loss"))
    out.validation_loss = number_in<double>(path, metadata, "validation_loss", -largest, largest);
  if (metadata.contains(left_out_steps_key) || metadata.contains(left_out_work_key))
    out.left_out = {number_in<int64_t>(path, metadata, left_out_steps_key, 1, largest_step),
                    number_in<double>(path, metadata, left_out_work_key, 0, double(largest_step))};
  return out;
}

/// What a checkpoint holds: parameters and states, but for data that the model brings along.
bool is_saved(const Node& node) { return is_kept(node) && !is_constant_data(node); }

/// Gives the tensors of the file that the program has not. `own`: states that no file has.
std::map<std::string, TensorType> check_has(const std::string& path, const SafetensorsFile& file,
                                            const Program& program, const std::set<NodeId>& own) {
  std::map<std::string, TensorType> unused = file.types();
  for (const Node& node : program.nodes) {
    if (!is_saved(node) || own.contains(node.id)) continue;
    const auto found = unused.find(node.name);
    if (found == unused.end()) fail_of_other_model(path, "the file has no tensor " + node.name, text(node.type), "");
    if (!(found->second == node.type))
      fail_of_other_model(path, "tensor " + node.name + " has another type", text(node.type), text(found->second));
    unused.erase(found);
  }
  return unused;
}

void check_fits(const std::string& path, const SafetensorsFile& file, const Program& program,
                const std::set<NodeId>& own) {
  if (const std::map<std::string, TensorType> unused = check_has(path, file, program, own); !unused.empty())
    fail_of_other_model(path, "the model has no tensor " + unused.begin()->first, "", text(unused.begin()->second));
}

HostTensor read_finite(const std::string& path, SafetensorsFile& file, const std::string& name) {
  HostTensor value = file.read(name);
  const std::string found = not_finite(value);
  if (!found.empty())
    refuse_checkpoint(path, fmt::format("tensor {} holds a number that is not finite", name), "finite numbers", found,
                      mend_of_damage(path));
  return value;
}

void check_room(const std::string& path, const Program& program, int64_t saves) {
  int64_t bytes = 0;
  for (const Node& node : program.nodes)
    if (is_saved(node)) bytes += element_count(node.type.shape) * size_bytes(node.type.dtype);
  std::error_code error;
  int64_t files = 3;
  for (const std::string& there : {path, previous_checkpoint(path)}) files -= fs::exists(there, error) ? 1 : 0;
  files = std::clamp<int64_t>(saves, 1, files);
  bytes *= files;
  const fs::path folder = fs::absolute(path, error).parent_path();
  const fs::space_info space = fs::space(folder, error);
  if (error || static_cast<uint64_t>(bytes) <= space.available) return;
  throw UserError({{path, 0, 0},
                   "checkpoint",
                   "the disk has no room for a checkpoint of this model",
                   files == 1 ? fmt::format("{} bytes", bytes)
                              : fmt::format("{} bytes, for {} files at once: the newest, the one before, and the one "
                                            "that is written",
                                            bytes, files),
                   fmt::format("{} bytes are free", space.available),
                   "make room, or name a file on another disk"},
                  ExitCode::failure);
}

/// `check`: whether the file has what a program wants, check_fits or check_has.
template <class Check>
CheckpointInfo check_header(const std::string& path, const Program& program, const std::set<NodeId>& own,
                            const Check& check) {
  return with_mend(path, [&] {
    const SafetensorsFile file(path);
    const CheckpointInfo info = info_of(path, file);
    check(path, file, program, own);
    return info;
  });
}

/// Sets what the program keeps, after the same.
template <class Check>
CheckpointInfo load(const std::string& path, Executor& executor, const std::set<NodeId>& own, const Check& check) {
  return with_mend(path, [&] {
    SafetensorsFile file(path);
    const CheckpointInfo info = info_of(path, file);
    check(path, file, executor.reference(), own);
    for (const Node& node : executor.reference().nodes)
      if (is_saved(node) && !own.contains(node.id)) executor.write(node.id, read_finite(path, file, node.name));
    return info;
  });
}

}  // namespace

std::string text(const LeftOutSteps& left_out) {
  return fmt::format("{}, in all the work of {:.1f}", counted(left_out.steps, "step"), left_out.work);
}

TokenOrigin tokenizer_in(const std::map<std::string, std::string>& metadata) {
  return {text_in(metadata, tokenizer_key), text_in(metadata, tokenizer_fingerprint_key)};
}

const OutputKind checkpoint_kind = safetensors_kind("checkpoint of hetsynth", "hetsynth checkpoint ");

std::string previous_checkpoint(const std::string& path) { return path + ".previous"; }

void check_checkpoint_target(const std::string& path, const Program& program, int64_t saves) {
  for (const std::string& name : {path, previous_checkpoint(path)}) {
    check_writable(name, "checkpoint");
    check_replaceable(name, checkpoint_kind);
  }
  check_room(path, program, saves);
  for (const Node& node : program.nodes)
    if (is_saved(node) && !std::isfinite(node.initializer.value))
      throw UserError({node.where, std::string(node.tag()), node.name + " does not start with finite numbers",
                       "numbers that a checkpoint can hold", fmt::format("{}", node.initializer.value),
                       "a constant that masks something is no parameter: write it into the expression"});
}

void save_checkpoint(const std::string& path, const Executor& executor, const CheckpointInfo& info) {
  const Program& program = executor.reference();
  std::vector<TensorEntry> entries;
  std::map<std::string, NodeId> nodes;
  for (const Node& node : program.nodes) {
    if (!is_saved(node)) continue;
    entries.push_back({node.name, node.type});
    nodes[node.name] = node.id;
  }
  if (!executor.leads()) {
    // Tensors are put together from the ranks of all processes, in the order in which the first one writes them.
    for (const TensorEntry& entry : entries) executor.read(nodes.at(entry.name));
    return;
  }
  std::map<std::string, std::string> metadata{{"data", info.data},
                                              {"data_fingerprint", info.data_fingerprint},
                                              {"format", format_name},
                                              {"next_step", std::to_string(info.next_step)},
                                              {"samples", std::to_string(info.samples.value_or(0))},
                                              {"seed", std::to_string(executor.seed())}};
  if (!info.plan.empty()) metadata["plan"] = info.plan;
  if (info.tokenizer.known()) {
    metadata[tokenizer_key] = info.tokenizer.name;
    metadata[tokenizer_fingerprint_key] = info.tokenizer.fingerprint;
  }
  if (info.validation_loss) metadata["validation_loss"] = fmt::format("{}", *info.validation_loss);
  if (info.left_out.steps > 0) {
    metadata[left_out_steps_key] = std::to_string(info.left_out.steps);
    metadata[left_out_work_key] = fmt::format("{}", info.left_out.work);
  }
  const auto tensor = [&](const std::string& name) {
    HostTensor value = executor.read(nodes.at(name));
    const std::string found = not_finite(value);
    if (found.empty()) return value;
    const Node& node = program[nodes.at(name)];
    throw UserError({node.where, "checkpoint",
                     fmt::format("after step {} {} {} is no finite number any more, and no checkpoint is written",
                                 info.next_step - 1, node.tag(), name),
                     "finite numbers", found,
                     fmt::format("{} is as it was; lower the learning rate, warm it up over more steps, or clip the "
                                 "gradients (clip_norm)",
                                 path)},
                    ExitCode::failure);
  };
  write_safetensors(path, entries, metadata, tensor, fs::path(previous_checkpoint(path)).filename().string());
}

CheckpointInfo read_checkpoint_info(const std::string& path) {
  return with_mend(path, [&] { return info_of(path, SafetensorsFile(path)); });
}

CheckpointInfo check_checkpoint(const std::string& path, const Program& program) {
  return check_header(path, program, {}, check_fits);
}

CheckpointInfo check_checkpoint(const std::string& path) {
  return with_mend(path, [&] {
    SafetensorsFile file(path);
    const CheckpointInfo info = info_of(path, file);
    for (const auto& [name, type] : file.types()) read_finite(path, file, name);
    return info;
  });
}

std::string checkpoint_fingerprint(const std::string& path) {
  return with_mend(path, [&] {
    SafetensorsFile file(path);
    std::string all = file.header_hash();
    if (file.checksummed()) return all;
    for (const auto& [name, type] : file.types()) {
      const HostTensor value = file.read(name);
      all += content_hash({reinterpret_cast<const char*>(value.bytes.data()), value.bytes.size()});
    }
    return content_hash(all);
  });
}

CheckpointInfo load_checkpoint(const std::string& path, Executor& executor) {
  return load(path, executor, {}, check_fits);
}

CheckpointInfo load_for_evaluation(const std::string& path, Executor& executor, const std::set<NodeId>& own) {
  return load(path, executor, own, check_has);
}

CheckpointInfo check_for_evaluation(const std::string& path, const Program& program, const std::set<NodeId>& own) {
  return check_header(path, program, own, check_has);
}

void check_tokenizer_of(const std::string& path, const TokenOrigin& trained_on, const TokenOrigin& found,
                        const std::string& what) {
  check_same_origin(path, "the checkpoint was trained on tokens of another tokenizer than " + what, trained_on, found,
                    "take the tokenizer that it was trained with; --other-tokenizer goes on all the same, where that "
                    "is meant");
}

void check_data_of(const std::string& path, const CheckpointInfo& info, const BatchSource& data) {
  if (info.data_fingerprint.empty() || info.data_fingerprint == data.fingerprint()) return;
  throw UserError({.where = {path},
                   .tag = "checkpoint",
                   .message = "the checkpoint was trained on other data",
                   .expected = fmt::format("{} (fingerprint {})", info.data, info.data_fingerprint),
                   .found = fmt::format("{} (fingerprint {})", data.description(), data.fingerprint()),
                   .mend =
                       "name the data it was trained on with --data; --new-data goes on with these, from their first "
                       "sample"});
}

}  // namespace hetsynth
