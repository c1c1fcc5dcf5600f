#include "codegen/cuda/attention/attention_call_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "codegen/text/expression.h"

namespace hetsynth::codegen::cuda {
namespace {

/// to[i] = from[i].
Kernel widening_kernel(const KernelContext& context, ValueId value, int scratch, const std::string& name) {
  const std::string& tensor = context.lowered.names[size_t(value)];
  const int64_t count = context.lowered.local.values[size_t(value)].count();
  const bool four = count % 4 == 0;
  Lines lines(1);
  lines.open(
      fmt::format("for (long long at = ((long long)blockIdx.x * {0} + threadIdx.x){2}; at < {1}; at += (long "
                  "long)gridDim.x * {3}) {{",
                  usual_threads, count, four ? " * 4" : "", usual_threads * (four ? 4 : 1)));
  if (four) {
    lines.add("bf16 narrow[4];");
    lines.add("load4(narrow, rounded + at);");
    lines.add("float four[4];");
    for (int v = 0; v < 4; ++v) lines.add(fmt::format("four[{0}] = (float)narrow[{0}];", v));
    lines.add(fmt::format("store4({} + at, four);", tensor));
  } else {
    lines.add(fmt::format("{}[at] = (float)rounded[at];", tensor));
  }
  lines.close();
  Kernel kernel;
  kernel.name = name;
  kernel.blocks = blocks_for(count / (four ? 4 : 1), usual_threads);
  kernel.arguments = {{KernelArgument::Kind::scratch, -1, scratch, "rounded"},
                      {KernelArgument::Kind::storage, value, -1, tensor}};
  kernel.text = kernel_head(fmt::format("// {}: what cuDNN left in bf16\n", tensor), name, kernel.threads,
                            fmt::format("const bf16* __restrict__ rounded, {}* __restrict__ {}",
                                        context.types.memory_real, tensor)) +
                lines.text() + "}\n";
  return kernel;
}

std::string table(const std::string& name, const std::vector<int64_t>& values) {
  return fmt::format("const long {}[] = {{{}}};", name, fmt::join(values, ", "));
}

}  // namespace

StepKernels attention_call_kernels(const KernelContext& context, const AttentionCall& call, Names& names) {
  StepKernels out;
  for (ValueId value : call.writes()) {
    const std::string name = names.take("widen_" + context.lowered.names[size_t(value)]);
    out.kernels.push_back(widening_kernel(context, value, int(out.scratch_bytes.size()), name));
    out.scratch_bytes.push_back(context.lowered.local.values[size_t(value)].count() * size_bytes(DType::bf16));
  }
  const AttentionSizes& s = call.sizes;
  if (!call.backward) out.scratch_bytes.push_back(s.batch * s.heads * s.queries * size_bytes(DType::f32));
  out.scratch_bytes.push_back(attention_workspace_bytes(s, call.backward));
  return out;
}

std::string_view attention_declarations() {
  return R"(
extern "C" {
int hetsynth_device_attention(HetsynthContext*, const long* sizes, const long* strides, float scale, int causal, const void* q, const void* k,
                              const void* v, void* o, float* statistics, void* workspace, long workspace_bytes);
int hetsynth_device_attention_gradient(HetsynthContext*, const long* sizes, const long* strides, float scale, int causal, const void* q,
                                       const void* k, const void* v, const void* o, const float* statistics, const void* o_gradient,
                                       void* q_gradient, void* k_gradient, void* v_gradient, void* workspace, long workspace_bytes);
}
)";
}

void attention_call_text(Lines& out, const AttentionCall& call, const AttentionCallPlaces& p, int number) {
  const AttentionSizes& s = call.sizes;
  std::vector<const AttentionTensor*> tensors{&call.q, &call.k, &call.v, &call.o};
  // A gradient's result lies as the forward call left it.
  if (call.backward) tensors.insert(tensors.end(), {&call.o_gradient, &call.by_q, &call.by_k, &call.by_v});
  std::vector<int64_t> strides;
  for (const AttentionTensor* tensor : tensors)
    strides.insert(strides.end(), tensor->stride.begin(), tensor->stride.end());
  const std::string sizes_name = fmt::format("attention_sizes_{}", number),
                    strides_name = fmt::format("attention_strides_{}", number);
  out.add(
      fmt::format("// batch, heads, heads of keys, queries, keys, features of queries and of values; batch, head and "
                  "position of q, k, v, o{}",
                  call.backward ? ", gradients of o, q, k, v" : ""));
  out.add(table(sizes_name, {s.batch, s.heads, s.key_heads, s.queries, s.keys, s.features, s.value_features}));
  out.add(table(strides_name, strides));
  const std::string head =
      fmt::format("{}, {}, {}, {}, {}, {}, {}, {}, {}", sizes_name, strides_name, codegen::number(call.scale, false),
                  call.causal ? 1 : 0, p.q, p.k, p.v, p.o, p.statistics);
  if (call.backward)
    out.add(fmt::format("if (hetsynth_device_attention_gradient(context, {}, {}, {}, {}, {})) return 1;", head,
                        p.o_gradient, fmt::join(p.gradients, ", "), p.workspace, p.workspace_bytes));
  else
    out.add(fmt::format("if (hetsynth_device_attention(context, {}, {}, {})) return 1;", head, p.workspace,
                        p.workspace_bytes));
}

}  // namespace hetsynth::codegen::cuda
