// hetsynth export: a checkpoint's parameters for other programs.
#include <fmt/format.h>

#include "cli/command.h"
#include "dsl/base/counted.h"
#include "dsl/base/output_file.h"
#include "runtime/rank/arena.h"
#include "runtime/training/checkpoint.h"
#include "runtime/weights/exported_weights.h"

namespace hetsynth::cli {
namespace {

struct ExportOptions {
  std::string checkpoint, map, out;
};

/// Among what else is a safetensors file, other programs' and our checkpoints, those that this command wrote.
constexpr const char* written_by = "hetsynth export";
const OutputKind exported_kind = safetensors_kind("file that hetsynth exported", written_by);

ExitCode write(const ExportOptions& options) {
  check_output(options.out, exported_kind, std::vector{options.checkpoint, options.map});
  const WeightMap map = WeightMap::load(options.map);
  check_checkpoint(options.checkpoint);
  SafetensorsFile file(options.checkpoint);
  const ExportedWeights weights = exported_weights(file, map);
  std::vector<TensorEntry> entries;
  std::map<std::string, const ExportedWeights::Exported*> by_name;
  int64_t bytes = 0;
  for (const ExportedWeights::Exported& exported : weights.tensors) {
    entries.push_back(exported.entry);
    by_name[exported.entry.name] = &exported;
    bytes += element_count(exported.entry.type.shape) * size_bytes(exported.entry.type.dtype);
  }
  ExportedValues values(weights, file);
  // Hugging Face's readers ask for this word.
  write_safetensors(options.out, entries, {{"format", "pt"}, {"written_by", written_by}},
                    [&](const std::string& name) { return values.value(*by_name.at(name)); });
  fmt::print("{}: {}, {}; left in the checkpoint: {}\n", options.out, counted(int64_t(entries.size()), "tensor"),
             text_of_bytes(bytes), counted(int64_t(weights.left.size()), "tensor"));
  return ExitCode::done;
}

}  // namespace

Command add_export(CLI::App& app) {
  auto options = std::make_shared<ExportOptions>();
  CLI::App* command =
      app.add_subcommand("export", "Write a checkpoint's parameters as safetensors under the names of another program");
  command->add_option("checkpoint", options->checkpoint, "Checkpoint, as run --checkpoint writes it")->required();
  command->add_option("--map", options->map, "Rules (TOML) for names and layouts, as for run --init-from")
      ->type_name("RULES")
      ->required();
  command->add_option("-o,--out", options->out, "File to write")->type_name("FILE")->required();
  return [options]() { return write(*options); };
}

}  // namespace hetsynth::cli
