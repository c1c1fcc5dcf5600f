#include "runtime/weights/weight_sources.h"

#include <algorithm>
#include <utility>

#include "dsl/base/counted.h"
#include "dsl/base/error.h"
#include "runtime/training/checkpoint.h"

namespace hetsynth {

WeightSources::WeightSources(const Program& program, const std::vector<std::string>& files,
                             const std::vector<std::string>& maps) {
  if (maps.size() > 1 && maps.size() != files.size())
    throw UserError({.tag = "--map",
                     .message = "there are not as many rules as files with weights",
                     .expected = "a --map for each --init-from, in the same order, or one for all of them",
                     .found = counted(int64_t(files.size()), "file") + " and " + counted(int64_t(maps.size()), "file") +
                              " of rules",
                     .mend = "give one for each"},
                    ExitCode::usage);
  for (size_t i = 0; i < files.size(); ++i) {
    const WeightMap map = maps.empty() ? WeightMap() : WeightMap::load(maps.size() == 1 ? maps[0] : maps[i]);
    files_.push_back(std::make_unique<WeightFile>(files[i]));
    found_.push_back(find_weights(program, *files_.back(), map));
  }
  // What another file has does not keep its starting value; what none has is told once.
  for (size_t i = 1; i < found_.size(); ++i) {
    const std::vector<std::string> before = std::exchange(found_[i - 1].missing, {});
    std::erase_if(found_[i].missing,
                  [&](const std::string& name) { return std::ranges::find(before, name) == before.end(); });
    found_[i].copies.merge(found_[i - 1].copies);
  }
}

std::string WeightSources::text() const {
  std::string out;
  for (size_t i = 0; i < files_.size(); ++i) out += hetsynth::text(found_[i], *files_[i]);
  return out;
}

void WeightSources::check_tokenizer(const TokenOrigin& found, const std::string& what) const {
  for (const auto& file : files_) check_tokenizer_of(file->path(), file->tokenizer(), found, what);
}

std::string WeightSources::fingerprint() const {
  std::string out;
  for (const auto& file : files_) out += (out.empty() ? "" : " ") + file->fingerprint();
  return out;
}

void WeightSources::take(Executor& executor) {
  for (size_t i = 0; i < files_.size(); ++i) take_weights(found_[i], *files_[i], executor);
}

}  // namespace hetsynth
