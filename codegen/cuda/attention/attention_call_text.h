// The text of attention by cuDNN: the call on the host side, and kernels that widen what it leaves in bf16.
#pragma once
#include <array>
#include <string>
#include <string_view>

#include "codegen/cuda/kernels/kernel.h"
#include "codegen/cuda/kernels/kernel_writer.h"
#include "codegen/cuda/plan/attention_call.h"
#include "codegen/passes/names.h"

namespace hetsynth::codegen::cuda {

/// Scratch of a forward call, by number; the workspace is the last one. A gradient has those of q, k and v first.
constexpr int attention_scratch_result = 0, attention_scratch_statistics = 1;

/// Results are float32 in the program, and cuDNN's are bf16: one kernel for each, and room for both.
StepKernels attention_call_kernels(const KernelContext& context, const AttentionCall& call, Names& names);

/// Declared where a text has calls.
std::string_view attention_declarations();

/// Addresses as the host program writes them.
struct AttentionCallPlaces {
  std::string q, k, v, o, statistics, o_gradient, workspace;
  std::array<std::string, 3> gradients;  ///< of q, k, v
  int64_t workspace_bytes = 0;
};

/// The call, behind tables of its sizes and strides. `number`: of the call within the step.
void attention_call_text(Lines& out, const AttentionCall& call, const AttentionCallPlaces& places, int number);

}  // namespace hetsynth::codegen::cuda
