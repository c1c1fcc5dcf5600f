// Runs the generated source of a cpu device that is alone: one step, from numbers drawn at random.
#pragma once
#include <string>
#include <vector>

#include "codegen/interface/device_program.h"

namespace hetsynth::test {

/// How a step is run: its number, how large real numbers are, and below what integers are; of those, every other one is
/// `ignored_label` unless `all_classes`.
struct OneStep {
  long step;
  double scale;
  unsigned classes;
  bool all_classes = true;
};
constexpr int ignored_label = -100;

/// The loss, then every element of parameters and states after one step of `text`, for each of `steps`. Half precision
/// is left as zeros and out. Throws with the compiler's messages, or if a step reports a failure.
std::vector<std::vector<float>> run_one_step(const Program& program, const DeviceProgram& device,
                                             const std::string& text, const std::vector<OneStep>& steps);

}  // namespace hetsynth::test
