// Generated programs to hold against their plans, and to damage.
#pragma once
#include <string>
#include <vector>

#include "runtime/training/generated_check.h"

namespace hetsynth::test {

/// A program, a plan of it and the sources of its ranks.
struct Generated {
  Program reference;
  SpmdProgram plan;
  std::vector<DeviceProgram> devices;
};
/// `attention_in_blocks`: as `generate` does it; without, all of the text is of the forms that the check follows.
Generated generated(Program reference, SpmdProgram plan, const Cluster& cluster, bool attention_in_blocks = false);

/// One step of training queries, keys and values of two heads: attention in blocks of 64 queries and 256 keys.
/// `precision`: "bf16", and features in sixteens, for tensor cores.
Program attention_program(int64_t queries, int64_t keys, bool causal, int64_t features = 3,
                          const std::string& precision = "f32");

SourceCheck check(const Generated& g, int rank);
/// The same for text that was changed.
SourceCheck check(const Generated& g, int rank, const std::string& text);
/// The same for kernels of a cuda rank that were changed.
SourceCheck check_kernels(const Generated& g, int rank, const std::string& kernels);

/// Uneven cuda devices, and a plan's programs for them.
Cluster cuda_devices(const std::vector<double>& speeds);
Generated generated_for_cuda(const Program& program, const SpmdProgram& plan, const Cluster& cluster);

/// The text with the first occurrence of `from` behind `after` replaced; a test failure if there is none.
std::string replaced(const std::string& text, const std::string& after, const std::string& from, const std::string& to);
/// The text with the one occurrence of `from` replaced; a test failure if there is none or several.
std::string edited(const std::string& text, const std::string& from, const std::string& to);

}  // namespace hetsynth::test
