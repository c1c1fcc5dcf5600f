#include "cli/given.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <map>

#include "cli/usage.h"
#include "dsl/base/file.h"
#include "dsl/base/hash.h"
#include "dsl/base/version.h"

namespace hetsynth::cli {
namespace {

enum class Compared {
  no,           ///< it decides nothing that processes share
  elsewhere,    ///< by what it stands for, as its words may differ where that is the same
  whether,      ///< whether it is given: processes then make calls together, but the first alone reads or writes it
  by_contents,  ///< of the file that it names, whose path may differ between machines
};

const std::map<std::string, Compared> exceptions = {
    {"log-json", Compared::no},
    {"output", Compared::no},
    {"json", Compared::no},
    {"patience", Compared::no},
    {"times", Compared::no},
    {"dump-after", Compared::no},
    {"set", Compared::elsewhere},  // these seven: options of the model
    {"batch", Compared::elsewhere},
    {"accumulate", Compared::elsewhere},
    {"turns", Compared::elsewhere},
    {"freeze", Compared::elsewhere},
    {"precision", Compared::elsewhere},
    {"gradient-norm", Compared::elsewhere},
    {"data", Compared::elsewhere},  // by samples of them
    {"valid", Compared::elsewhere},
    {"resume", Compared::elsewhere},  // by their fingerprints
    {"init-from", Compared::elsewhere},
    {"tokenizer", Compared::elsewhere},  // by the tokens of the prompt, and how many there are
    {"prompt", Compared::elsewhere},
    {"checkpoint", Compared::whether},
    {"trace", Compared::whether},
    {"cluster", Compared::by_contents},
    {"plan", Compared::by_contents},
    {"pins", Compared::by_contents},
    {"map", Compared::by_contents},
};

GivenValue by_contents(const std::string& name, const std::vector<std::string>& files) {
  GivenValue out{name, ""};
  for (const std::string& file : files) {
    const std::string hash = content_hash(read_file(file, name, int64_t(1) << 30));
    out.value += (out.value.empty() ? "" : " ") + hash;
    out.where += (out.where.empty() ? "" : ", ") + file;
  }
  return out;
}

}  // namespace

std::vector<GivenValue> given_to_command(const CLI::App& command, const Compilation& c) {
  std::vector<GivenValue> out = {{"version of hetsynth", tool_version()}};
  std::vector<GivenValue> words;
  for (const CLI::Option* option : all_options(command)) {
    if (option->get_positional()) continue;  // files, compared by what they hold
    const std::string name = option->get_lnames().at(0);
    const auto exception = exceptions.find(name);
    if (exception == exceptions.end())
      words.push_back({"--" + name, option->count() > 0 ? fmt::format("{}", fmt::join(option->results(), ","))
                                                        : option->get_default_str()});
    else if (exception->second == Compared::whether)
      words.push_back({"--" + name, option->count() > 0 ? "given" : ""});
    else if (exception->second == Compared::by_contents)
      out.push_back(by_contents(name, option->results()));
  }
  std::string settings;
  for (const OptionValue& option : c.reference.options)
    settings += fmt::format("{}{}={}", settings.empty() ? "" : " ", option.name, option.value);
  // What other differences come from is named first: a plan brings options of the model, and these another model.
  out.push_back({"options of the model", settings});
  out.push_back({"model", hash_text(c.reference), c.model_options.file});
  out.insert(out.end(), words.begin(), words.end());
  return out;
}

void agree_with_others(Job& job, const RunOptions& options, const std::optional<CheckpointInfo>& resumed,
                       const std::string& weights, const BatchSource& data, const BatchSource* validation) {
  std::vector<GivenValue> given = given_to_command(*options.command, options.compilation);
  std::string checkpoint;
  if (resumed)
    checkpoint = fmt::format("step {} of seed {}, fingerprint {}", resumed->next_step, resumed->seed,
                             checkpoint_fingerprint(options.resume));
  given.push_back({"checkpoint to resume", checkpoint, options.resume});
  given.push_back({"weights to start with", weights, fmt::format("{}", fmt::join(options.init_from, ", "))});
  given.push_back({"data", "fingerprint " + data.fingerprint(), data.description()});
  given.push_back({"validation data", validation ? "fingerprint " + validation->fingerprint() : "",
                   validation ? validation->description() : ""});
  agree(job, given);
}

}  // namespace hetsynth::cli
