#include "tests/support/damage/one_step.h"

#include <fmt/format.h>

#include <map>
#include <random>
#include <stdexcept>

#include "codegen/interface/abi.h"
#include "dsl/jit/compiled_code.h"
#include "runtime/abi/abi.h"

namespace hetsynth::test {
namespace {

void fill(const DeviceProgram& device, char* arena, const OneStep& how) {
  std::mt19937_64 random(7);
  for (const Slot& leaf : device.leaves)
    for (int64_t i = 0; i < part_elements(leaf.ranges); ++i) {
      char* at = arena + leaf.offset_bytes;
      if (leaf.dtype == DType::i32)
        reinterpret_cast<int*>(at)[i] = how.all_classes || i % 2 == 0 ? int(random() % how.classes) : ignored_label;
      else if (leaf.dtype == DType::f32)
        reinterpret_cast<float*>(at)[i] = float(how.scale * (2 * double(random() >> 11) * 0x1p-53 - 1));
    }
}

}  // namespace

std::vector<std::vector<float>> run_one_step(const Program& program, const DeviceProgram& device,
                                             const std::string& text, const std::vector<OneStep>& steps) {
  CompileOptions options;
  options.optimization = 1;  // many small programs compile faster
  std::map<std::string, void*> symbols;
  for (const auto& [name, address] : abi_symbols()) symbols[name] = address;
  const NativeModule module = load_native(text, options, symbols);
  std::vector<std::vector<float>> out;
  for (const OneStep& how : steps) {
    std::vector<char> memory(size_t(device.arena_bytes) + 128, 0);
    char* arena = memory.data() + (64 - reinterpret_cast<uintptr_t>(memory.data()) % 64);
    fill(device, arena, how);
    HetsynthContext context{arena, how.step, 11, nullptr, nullptr, nullptr};
    const int status = module.function<int(HetsynthContext*)>("hetsynth_step")(&context);
    if (status != 0) throw std::runtime_error(fmt::format("step {} ended with {}", how.step, status));
    std::vector<float>& found = out.emplace_back();
    found.push_back(*reinterpret_cast<float*>(arena + device.loss.offset_bytes));
    for (const Slot& leaf : device.leaves) {
      if (program[leaf.node].kind == NodeKind::input) continue;  // written anew before each step
      const char* at = arena + leaf.offset_bytes;
      const int64_t count = part_elements(leaf.ranges);
      const auto add = [&](const auto* numbers) { found.insert(found.end(), numbers, numbers + count); };
      if (leaf.dtype == DType::f32) add(reinterpret_cast<const float*>(at));
      if (leaf.dtype == DType::i32) add(reinterpret_cast<const int*>(at));
    }
  }
  return out;
}

}  // namespace hetsynth::test
