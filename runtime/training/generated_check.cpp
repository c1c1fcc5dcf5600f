#include "runtime/training/generated_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>

#include "codegen/cpu/prelude.h"
#include "codegen/cuda/attention/attention_call_text.h"
#include "codegen/cuda/host/host_text.h"
#include "codegen/cuda/kernels/prelude.h"
#include "dsl/base/version.h"
#include "dsl/jit/disk_cache.h"
#include "verify/certificate.h"
#include "verify/isolated.h"

namespace hetsynth {
namespace {

ArenaSlot arena_slot(const Slot& slot) { return {slot.node, slot.value, slot.offset_bytes}; }

std::string slots_text(const RankSource& source) {
  std::string out = fmt::format("{} {} {} ", source.rank, source.arena_bytes, source.buckets);
  auto add = [&](const ArenaSlot& slot) { out += fmt::format("{}:{}@{} ", slot.node, slot.value, slot.offset_bytes); };
  for (const ArenaSlot& slot : source.leaves) add(slot);
  out += "| ";
  for (const ArenaSlot& slot : source.outputs) add(slot);
  out += "| ";
  add(source.loss);
  return out;
}

int badness(Verdict verdict) { return verdict == Verdict::refuted ? 2 : verdict == Verdict::unknown ? 1 : 0; }

}  // namespace

SourceOptions source_options() {
  SourceOptions out;
  out.prelude = codegen::whole_prelude();
  out.device_prelude = codegen::cuda::prelude();
  out.device_declarations = codegen::cuda::host_declarations();
  out.attention_declarations = codegen::cuda::attention_declarations();
  return out;
}

RankSource rank_source(const DeviceProgram& program) {
  RankSource out;
  out.rank = program.rank;
  out.file_name = program.files.front().name;
  out.text = program.files.front().text;
  if (program.files.size() > 1) out.kernels = program.files[1].text;
  out.buckets = program.buckets;
  out.arena_bytes = program.arena_bytes;
  for (const Slot& slot : program.leaves) out.leaves.push_back(arena_slot(slot));
  for (const Slot& slot : program.outputs) out.outputs.push_back(arena_slot(slot));
  out.loss = arena_slot(program.loss);
  return out;
}

const SourceCheck& GeneratedCheck::worst() const {
  return *std::max_element(ranks.begin(), ranks.end(), [](const SourceCheck& a, const SourceCheck& b) {
    return badness(a.verdict) < badness(b.verdict);
  });
}

GeneratedCheck check_generated(const Program& reference, const SpmdProgram& program,
                               const std::vector<DeviceProgram>& programs, int64_t most_work) {
  auto start = std::chrono::steady_clock::now();
  DiskCache cache("source-checks", int64_t(16) << 20);
  SourceOptions options = source_options();
  options.work_in_all = most_work;
  std::string subject = hash_text(reference) + " " + program_hash(program);
  GeneratedCheck out;
  out.ranks.resize(programs.size());
  std::atomic<size_t> next{0};
  std::atomic<int> cached{0};
  auto serve = [&] {
    for (size_t i = next++; i < programs.size(); i = next++) {
      RankSource source = rank_source(programs[i]);
      std::string key = cache_key({"source check", source_check_revision, tool_version(), subject, slots_text(source),
                                   options.prelude, options.device_prelude, options.device_declarations,
                                   options.attention_declarations, source.text, source.kernels});
      // What took too long would take as long again.
      const std::string key_of_long = cache_key({"source check that takes longer", key, std::to_string(most_work)});
      if (cache.load(key)) {
        out.ranks[i].verdict = Verdict::proved;
        out.ranks[i].rank = source.rank;
        ++cached;
        continue;
      }
      if (const std::optional<std::string> summary = cache.load(key_of_long)) {
        out.ranks[i] = {.summary = *summary, .rank = source.rank, .out_of_work = true};
        ++cached;
        continue;
      }
      out.ranks[i] = check_source(reference, program, source, options);
      if (out.ranks[i].verdict == Verdict::proved) cache.store(key, "passed");
      if (out.ranks[i].out_of_work) cache.store(key_of_long, out.ranks[i].summary);
    }
  };
  std::vector<std::thread> threads;
  size_t helpers = std::min<size_t>(programs.size(), std::max(1u, std::thread::hardware_concurrency()));
  for (size_t i = 1; i < helpers; ++i) threads.emplace_back(serve);
  serve();
  for (std::thread& thread : threads) thread.join();
  out.from_cache = cached;
  out.verdict = out.ranks.empty() ? Verdict::proved : out.worst().verdict;
  out.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return out;
}

GeneratedCheck check_foreign(const Program& reference, const SpmdProgram& program,
                             const std::vector<DeviceProgram>& programs) {
  constexpr double limit_seconds = 120;
  constexpr int64_t limit_bytes = int64_t(4) << 30;
  const SourceOptions options = source_options();
  GeneratedCheck out;
  out.verdict = Verdict::proved;
  auto start = std::chrono::steady_clock::now();
  for (const DeviceProgram& device : programs) {
    Verification v = run_isolated(
        [&] {
          SourceCheck check = check_source(reference, program, rank_source(device), options);
          Verification result;
          result.verdict = check.verdict;
          result.summary = check.summary;
          result.instruction = check.line;
          result.counterexample.where = check.where;
          result.obligations = check.statements;
          result.lemmas = check.collectives;
          return result;
        },
        limit_seconds, limit_bytes);
    out.ranks.push_back({.verdict = v.verdict,
                         .summary = v.summary,
                         .rank = device.rank,
                         .line = std::max(v.instruction, 0),
                         .where = v.counterexample.where,
                         .statements = v.obligations,
                         .collectives = v.lemmas,
                         .seconds = v.seconds});
  }
  out.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  if (!out.ranks.empty()) out.verdict = out.worst().verdict;
  return out;
}

}  // namespace hetsynth
