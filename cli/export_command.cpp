// hetsynth export: a checkpoint's parameters for other programs, as safetensors or GGUF.
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "cli/command.h"
#include "dsl/base/counted.h"
#include "dsl/base/output_file.h"
#include "dsl/model/optimizers.h"
#include "runtime/rank/arena.h"
#include "runtime/rank/notice.h"
#include "runtime/training/checkpoint.h"
#include "runtime/weights/exported_weights.h"
#include "runtime/weights/gguf.h"
#include "runtime/weights/gguf_rules.h"
#include "runtime/weights/gguf_tokens.h"
#include "runtime/weights/merge_rules.h"
#include "runtime/weights/rules_text.h"

namespace hetsynth::cli {
namespace {

struct ExportOptions {
  std::string checkpoint, map, merge, out, tokenizer;
  std::vector<std::string> metadata;  ///< "KEY=VALUE"
  bool json = false;
};

/// What was written, and what was not.
struct Exported {
  int64_t tensors = 0, bytes = 0;
  int64_t merged = 0;                         ///< parameters that adapters were added to
  int64_t left = 0;                           ///< tensors that stay in the checkpoint
  std::vector<std::string> not_of_optimizer;  ///< those of them that are not the optimizer's
};

std::string text_of(const ExportOptions& options, const Exported& done) {
  return fmt::format(
      "{}: {}, {}{}; left in the checkpoint: {}{}\n", options.out, counted(done.tensors, "tensor"),
      text_of_bytes(done.bytes),
      options.merge.empty() ? "" : fmt::format("; adapters merged into {}", counted(done.merged, "parameter")),
      counted(done.left, "tensor"),
      done.not_of_optimizer.empty()
          ? ""
          : fmt::format(", and among them what is not the optimizer's: {}", short_list(done.not_of_optimizer)));
}

std::string json_of(const ExportOptions& options, const Exported& done, bool gguf) {
  const nlohmann::ordered_json out{{"file", options.out},
                                   {"format", gguf ? "gguf" : "safetensors"},
                                   {"tensors", done.tensors},
                                   {"bytes", done.bytes},
                                   {"merged_parameters", done.merged},
                                   {"left", done.left},
                                   {"left_not_of_optimizer", done.not_of_optimizer}};
  return out.dump(2) + "\n";
}

/// Among what else is a safetensors file, other programs' and our checkpoints, those that this command wrote.
constexpr const char* written_by = "hetsynth export";
const OutputKind exported_kind = safetensors_kind("file that hetsynth exported", written_by);

/// What --metadata says, by key. Throws UserError for an entry without a key, and for a key that stands twice.
std::map<std::string, std::string> metadata_of(const ExportOptions& options) {
  std::map<std::string, std::string> out;
  for (const std::string& entry : options.metadata) {
    const size_t equals = entry.find('=');
    if (equals == std::string::npos || equals == 0 ||
        !out.emplace(entry.substr(0, equals), entry.substr(equals + 1)).second)
      throw UserError({.tag = "--metadata",
                       .message = "this is no entry, or one that was given before",
                       .expected = "KEY=VALUE, each key once",
                       .found = entry},
                      ExitCode::usage);
  }
  return out;
}

/// How many tokens the model has, as the rules say.
int64_t vocabulary_of(const ExportOptions& options, const GgufEntries& entries) {
  for (const auto& [key, value] : entries)
    if (const auto* size = std::get_if<uint32_t>(&value); size && key.ends_with(".vocab_size")) return *size;
  throw UserError({.where = {options.map},
                   .tag = "gguf",
                   .message = "the rules do not say how many tokens the model has, which --tokenizer needs",
                   .expected = "an entry whose name ends with .vocab_size, as \"llama.vocab_size\"",
                   .mend = "docs/weights.md shows such a file"});
}

/// The entries of a GGUF file: what the rules say, and the tokenizer.
GgufEntries entries_of(const ExportOptions& options, const GgufRules& rules, const WeightMap& map,
                       const SafetensorsFile& checkpoint) {
  rules.check_complete(checkpoint, map);
  const std::map<std::string, std::string> given = metadata_of(options);
  GgufEntries out = rules.entries(checkpoint, given);
  GgufEntries tokens = options.tokenizer.empty() ? gguf_without_tokens()
                                                 : gguf_tokens(options.tokenizer, vocabulary_of(options, out),
                                                               given.contains("tokenizer.ggml.pre"));
  std::ranges::move(tokens, std::back_inserter(out));
  return out;
}

ExitCode write(const ExportOptions& options) {
  const std::optional<GgufRules> gguf = GgufRules::load(options.map);
  check_output(options.out, gguf ? gguf_kind : exported_kind,
               std::vector{options.checkpoint, options.map, options.merge, options.tokenizer});
  if (!gguf && (!options.tokenizer.empty() || !options.metadata.empty()))
    throw UserError({.where = {options.map},
                     .tag = "export",
                     .message = "--tokenizer and --metadata go into GGUF files alone",
                     .expected = "rules with a table [gguf]",
                     .found = "rules of safetensors",
                     .mend = "for a Llama take examples/weights/llama-gguf.toml"},
                    ExitCode::usage);
  if (const bool named_so = options.out.ends_with(".gguf"); named_so != gguf.has_value())
    throw UserError(
        {.where = {options.out},
         .tag = "export",
         .message = "the name is that of another format than the rules write",
         .expected = gguf ? "a name that ends in .gguf" : "a name that does not end in .gguf, as FILE.safetensors",
         .found = gguf ? options.map + " with a table [gguf]" : options.map + " without a table [gguf]",
         .mend = gguf ? "name the file FILE.gguf"
                      : "for a Llama take examples/weights/llama-gguf.toml; there are no others that write "
                        "GGUF but mixtral-gguf.toml"},
        ExitCode::usage);
  const WeightMap map = WeightMap::load(options.map);
  const CheckpointInfo info = check_checkpoint(options.checkpoint);
  if (!options.tokenizer.empty() && info.tokenizer.known()) {
    const TokenOrigin given = origin_of(*open_tokenizer(options.tokenizer), options.tokenizer);
    if (differ(given, info.tokenizer))
      warn("{} was trained on tokens of another tokenizer, {}; the file gets {}", options.checkpoint,
           text(info.tokenizer), text(given));
  }
  SafetensorsFile file(options.checkpoint);
  const ExportedWeights weights = exported_weights(file, map);
  std::optional<MergeRules> merge_rules;
  std::optional<MergedWeights> merged;
  if (!options.merge.empty()) {
    merge_rules = MergeRules::load(options.merge);
    merged.emplace(*merge_rules, file);
    merged->check_named(map, file);
  }
  std::vector<TensorEntry> entries;
  std::map<std::string, const ExportedWeights::Exported*> by_name;
  Exported done;
  done.tensors = int64_t(weights.tensors.size());
  if (merged) done.merged = merged->parameters();
  for (const ExportedWeights::Exported& exported : weights.tensors) {
    entries.push_back(exported.entry);
    by_name[exported.entry.name] = &exported;
    done.bytes += element_count(exported.entry.type.shape) * size_bytes(exported.entry.type.dtype);
  }
  ExportedValues values(weights,
                        [&](const std::string& name) { return merged ? merged->read(file, name) : file.read(name); });
  const auto value_of = [&](const std::string& name) { return values.value(*by_name.at(name)); };
  // Hugging Face's readers ask for this word.
  if (gguf)
    write_gguf(options.out, entries_of(options, *gguf, map, file), entries, value_of);
  else
    write_safetensors(options.out, entries, {{"format", "pt"}, {"written_by", written_by}}, value_of);
  for (const std::string& name : weights.left) {
    if (merged && merged->uses(name)) continue;
    ++done.left;
    if (!file.types().contains(parameter_of_state(name))) done.not_of_optimizer.push_back(name);
  }
  fmt::print("{}", options.json ? json_of(options, done, gguf.has_value()) : text_of(options, done));
  return ExitCode::done;
}

}  // namespace

Command add_export(CLI::App& app) {
  auto options = std::make_shared<ExportOptions>();
  CLI::App* command = app.add_subcommand(
      "export", "Write a checkpoint's parameters under the names of another program, as safetensors or GGUF");
  command->add_option("checkpoint", options->checkpoint, "Checkpoint, as run --checkpoint writes it")->required();
  command->add_option("--map", options->map, "Rules (TOML) for names and layouts, as for run --init-from")
      ->type_name("RULES")
      ->required();
  command
      ->add_option("--merge", options->merge,
                   "Rules (TOML) with a table [merge]: adapters are added to the weights they adapt, W + scale A B, as "
                   "examples/weights/gpt2-lora.toml says")
      ->type_name("RULES");
  command->add_option("-o,--out", options->out, "File to write")->type_name("FILE")->required();
  command->add_option("--tokenizer", options->tokenizer, "For GGUF: the model's tokenizer.json or SentencePiece model")
      ->type_name("FILE");
  command
      ->add_option("--metadata", options->metadata,
                   "For GGUF: what the rules ask for, or any other entry: --metadata general.name=tuned")
      ->type_name("KEY=VALUE");
  command->add_flag("--json", options->json, "Report as JSON");
  return [options]() { return write(*options); };
}

}  // namespace hetsynth::cli
