#include "tests/source/damage.h"

#include <gtest/gtest.h>

#include <random>

#include "codegen/abi.h"
#include "tests/codegen/harness.h"

namespace hetsynth::test {
namespace {

/// How a damaged text is run: the number of the step, how large real numbers are, and below what integers are, all of
/// them and not only every other one.
struct Run {
  long step;
  double scale;
  unsigned classes;
  bool all;
};
constexpr Run runs[] = {{3, 0.5, 256, true}, {100, 10, 4, true}, {150, 0.05, 4, false}};
constexpr int ignored = -100;

/// The leaves and the loss after one step of this text on one device, as bytes.
std::string executed(const Generated& g, const NativeModule& module, const Run& run) {
  const DeviceProgram& device = g.devices[0];
  std::vector<char> memory(size_t(device.arena_bytes) + 128, 0);
  char* arena = memory.data() + (64 - reinterpret_cast<uintptr_t>(memory.data()) % 64);
  std::mt19937_64 random(7);
  for (const Slot& leaf : device.leaves) {
    for (int64_t i = 0; i < part_elements(leaf.ranges); ++i) {
      char* at = arena + leaf.offset_bytes + i * 4;
      if (leaf.dtype == DType::i32)
        *reinterpret_cast<int*>(at) = run.all || i % 2 == 0 ? int(random() % run.classes) : ignored;
      else
        *reinterpret_cast<float*>(at) = float(run.scale * (2 * double(random() >> 11) * 0x1p-53 - 1));
    }
  }
  HetsynthContext context{arena, run.step, 11, nullptr, nullptr, nullptr};
  EXPECT_EQ(module.function<int(HetsynthContext*)>("hetsynth_step")(&context), 0);
  std::string out(arena + device.loss.offset_bytes, 4);
  for (const Slot& leaf : device.leaves) {
    if (g.reference[leaf.node].kind == NodeKind::input) continue;  // written anew before each step
    out += std::string(arena + leaf.offset_bytes, size_t(part_elements(leaf.ranges) * 4));
  }
  return out;
}

std::vector<std::string> executed(const Generated& g, const std::string& text) {
  const NativeModule module = compile(text, 1);
  std::vector<std::string> out;
  for (const Run& run : runs) out.push_back(executed(g, module, run));
  return out;
}

}  // namespace

const std::string& text_of(const Generated& g, int rank) { return g.devices[size_t(rank)].files.front().text; }

void Damage::inflict(const std::string& text, const std::string& what) {
  const SourceCheck result = check(g_, 0, text);
  ++verdicts[result.verdict];
  if (result.verdict != Verdict::proved) return;
  if (expected_.empty()) expected_ = executed(g_, text_of(g_, 0));
  EXPECT_TRUE(executed(g_, text) == expected_) << "passed, but computes something else: " << what;
}

}  // namespace hetsynth::test
