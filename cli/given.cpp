#include "cli/given.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "dsl/base/file.h"
#include "dsl/base/hash.h"
#include "dsl/base/version.h"
#include "runtime/processes/agreement.h"

namespace hetsynth::cli {

void agree_with_others(Job& job, const RunOptions& options, const std::optional<CheckpointInfo>& resumed,
                       const std::string& weights, const BatchSource& data) {
  const Compilation& c = options.compilation;
  std::string settings, cluster, checkpoint, rules;
  for (const OptionValue& option : c.reference.options)
    settings += fmt::format("{}{}={}", settings.empty() ? "" : " ", option.name, option.value);
  if (!c.cluster_file.empty()) cluster = content_hash(read_file(c.cluster_file, "cluster file", int64_t(1) << 20));
  if (!options.map.empty()) rules = content_hash(read_file(options.map, "rules of weights", int64_t(1) << 20));
  if (resumed)
    checkpoint = fmt::format("step {} of seed {}, fingerprint {}", resumed->next_step, resumed->seed,
                             checkpoint_fingerprint(options.resume));
  agree(job, {{"version of hetsynth", tool_version()},
              {"options of the model", settings},
              {"model", hash_text(c.reference), c.model_options.file},
              {"cluster", cluster, c.cluster_file},
              {"checkpoint to resume", checkpoint, options.resume},
              {"weights to start with", weights, options.init_from},
              {"rules of weights", rules, options.map},
              {"seed", fmt::format("{}", options.data.seed)},
              {"number of steps", fmt::format("{}", options.train.steps)},
              {"data", "fingerprint " + data.fingerprint(), data.description()},
              {"--new-data", options.new_data ? "given" : ""},
              {"--checkpoint", options.train.checkpoint.empty() ? "" : "given"},
              {"--checkpoint-every", fmt::format("{}", options.train.checkpoint_every)},
              {"--profile", options.profile ? "given" : ""},
              {"--valid", options.validation.data.empty() ? "" : "given"},
              {"--valid-every", fmt::format("{}", options.train.validation.every)},
              {"--valid-batches", fmt::format("{}", options.validation.batches)},
              {"--stop-after", fmt::format("{}", options.train.validation.stop_after)},
              {"--keep", options.train.keep.best ? "best" : fmt::format("{}", options.train.keep.last)},
              {"--balance", name(options.balance)},
              {"--without", fmt::format("{}", fmt::join(c.without, ", "))},
              {"--sample", options.sample_bytes > 0 ? "given" : ""}});
}

}  // namespace hetsynth::cli
