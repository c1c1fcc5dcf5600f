// hetsynth checkpoint: what a checkpoint holds, and whether it is whole.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "cli/command.h"
#include "runtime/rank/arena.h"
#include "runtime/training/checkpoint.h"
#include "runtime/training/safetensors.h"

namespace hetsynth::cli {
namespace {

struct CheckpointOptions {
  std::string file;
  bool json = false;
};

int64_t bytes_of(const TensorType& type) { return element_count(type.shape) * size_bytes(type.dtype); }

std::string text_of(const CheckpointOptions& options, const CheckpointInfo& info, const SafetensorsFile& file) {
  int64_t bytes = 0;
  std::string tensors;
  for (const auto& [name, type] : file.types()) {
    bytes += bytes_of(type);
    tensors += fmt::format("  {:<32} {}\n", name, text(type));
  }
  std::string out = fmt::format("{}: {}\n", options.file,
                                file.checksummed() ? "whole: every tensor has the bytes that its checksum is of"
                                                   : "of a version that wrote no checksums");
  out += fmt::format("  next step  {}\n  seed       {}\n", info.next_step, info.seed);
  if (info.samples) out += fmt::format("  samples    {} seen\n", *info.samples);
  if (!info.data.empty()) out += fmt::format("  data       {} (fingerprint {})\n", info.data, info.data_fingerprint);
  if (info.tokenizer.known()) out += fmt::format("  tokenizer  {}\n", text(info.tokenizer));
  if (!info.plan.empty()) out += fmt::format("  plan       {}\n", info.plan);
  if (info.validation_loss) out += fmt::format("  validation loss {:.4f}\n", *info.validation_loss);
  if (info.left_out.steps > 0)
    out += fmt::format("  lossy      slow devices left columns of their products out in {}\n", text(info.left_out));
  return out + fmt::format("{} tensors, {}\n{}", file.types().size(), text_of_bytes(bytes), tensors);
}

nlohmann::ordered_json json_of(const CheckpointInfo& info, const SafetensorsFile& file) {
  nlohmann::ordered_json out{{"next_step", info.next_step},
                             {"seed", info.seed},
                             {"samples", nullptr},
                             {"data", info.data},
                             {"data_fingerprint", info.data_fingerprint},
                             {"tokenizer", info.tokenizer.name},
                             {"tokenizer_fingerprint", info.tokenizer.fingerprint},
                             {"plan", info.plan},
                             {"checksums", file.checksummed()}};
  if (info.samples) out["samples"] = *info.samples;
  if (info.validation_loss) out["validation_loss"] = *info.validation_loss;
  if (info.left_out.steps > 0) out["lossy"] = {{"steps", info.left_out.steps}, {"work_in_steps", info.left_out.work}};
  out["tensors"] = nlohmann::ordered_json::array();
  for (const auto& [name, type] : file.types())
    out["tensors"].push_back({{"name", name}, {"type", text(type)}, {"bytes", bytes_of(type)}});
  return out;
}

ExitCode show(const CheckpointOptions& options) {
  const CheckpointInfo info = check_checkpoint(options.file);
  const SafetensorsFile file(options.file);
  fmt::print("{}", options.json ? json_of(info, file).dump(2) + "\n" : text_of(options, info, file));
  return ExitCode::done;
}

}  // namespace

Command add_checkpoint(CLI::App& app) {
  auto options = std::make_shared<CheckpointOptions>();
  CLI::App* command = app.add_subcommand(
      "checkpoint",
      "Tell where a checkpoint continues, of which data, under which plan, which tensors it holds, and whether it is "
      "whole");
  command->add_option("file", options->file, "Checkpoint, as run --checkpoint writes it")->required();
  command->add_flag("--json", options->json, "Report as JSON");
  return [options]() { return show(*options); };
}

}  // namespace hetsynth::cli
