#include "codegen/cuda/host/host_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "codegen/cuda/attention/attention_call_text.h"
#include "codegen/cuda/host/product_text.h"
#include "codegen/cuda/kernels/kernel_writer.h"
#include "codegen/cuda/kernels/prelude.h"
#include "codegen/text/annotate.h"
#include "codegen/text/collective_text.h"
#include "codegen/text/context_text.h"
#include "dsl/base/error.h"

namespace hetsynth::codegen::cuda {
namespace {

constexpr std::string_view declarations = R"(extern "C" {
int hetsynth_launch(HetsynthContext*, int stream, int kernel, unsigned blocks, unsigned threads, unsigned shared_bytes, void** arguments);
int hetsynth_device_matmul(HetsynthContext*, long batch, long m, long n, long k, const float* a, long a_batch, long a_row, long a_column,
                           const float* w, long w_batch, long w_row, long w_column, float* c, long c_batch, long c_row, long c_column,
                           int accumulate);
int hetsynth_device_matmul_bf16(HetsynthContext*, long batch, long m, long n, long k, const void* a, long a_batch, long a_row, long a_column,
                                const void* w, long w_batch, long w_row, long w_column, float* c, long c_batch, long c_row, long c_column,
                                int accumulate);
int hetsynth_device_matmul_fp16(HetsynthContext*, long batch, long m, long n, long k, const void* a, long a_batch, long a_row, long a_column,
                                const void* w, long w_batch, long w_row, long w_column, float* c, long c_batch, long c_row, long c_column,
                                int accumulate);
int hetsynth_device_matmul_then(HetsynthContext*, int operands, long m, long n, long k, const void* a, long a_row, long a_column,
                                const void* w, long w_row, long w_column, float* c, long c_row, int epilogue, float* bias, float* beside);
int hetsynth_device_copy(HetsynthContext*, int stream, void* to, const void* from, long bytes);
int hetsynth_record(HetsynthContext*, int event, int stream);
int hetsynth_wait(HetsynthContext*, int event, int stream);
void* hetsynth_nccl_communicator(HetsynthContext*, int axis);
int ncclGroupStart();
int ncclGroupEnd();
int ncclAllGather(const void* from, void* to, unsigned long count, int type, void* communicator, void* stream);
int ncclAllReduce(const void* from, void* to, unsigned long count, int type, int op, void* communicator, void* stream);
int ncclReduceScatter(const void* from, void* to, unsigned long count, int type, int op, void* communicator, void* stream);
int ncclBroadcast(const void* from, void* to, unsigned long count, int type, int root, void* communicator, void* stream);
int ncclReduce(const void* from, void* to, unsigned long count, int type, int op, int root, void* communicator, void* stream);
int ncclSend(const void* from, unsigned long count, int type, int peer, void* communicator, void* stream);
int ncclRecv(void* to, unsigned long count, int type, int peer, void* communicator, void* stream);
}
// Numbers of 16 bits: the host moves them without looking at them.
enum bf16 : unsigned short {};
enum fp16 : unsigned short {};
enum { compute_stream = 0, communication_stream = 1, rising_stream = 2, falling_stream = 3 };
// What becomes of a product c before it is stored: c + bias; max(c + bias, 0); gelu(c + bias); the same, and c + bias to beside; c * gelu'(beside);
// the same, and its sums over all rows to bias.
enum { add_bias = 4, add_bias_relu = 6, add_bias_gelu = 36, add_bias_gelu_keep = 164, times_gelu_slope = 192, times_gelu_slope_sum = 208 };
enum { nccl_int32 = 2, nccl_float16 = 6, nccl_float32 = 7, nccl_bfloat16 = 9 };
enum { nccl_sum = 0, nccl_product = 1, nccl_max = 2, nccl_min = 3, nccl_average = 4 };

// One launch; the kernel's arguments follow.
template <class... Argument>
static int launch(HetsynthContext* context, int stream, int kernel, unsigned blocks, unsigned threads, Argument... argument) {
  void* arguments[] = {(void*)&argument..., 0};
  return hetsynth_launch(context, stream, kernel, blocks, threads, 0, arguments);
}
)";

/// Where a collective goes within hosts first.
constexpr const char* sending_declarations = R"(
extern "C" {
void* hetsynth_nccl_rising_communicator(HetsynthContext*, int axis);
void* hetsynth_nccl_falling_communicator(HetsynthContext*, int axis);
}
)";

constexpr const char* hierarchical_declarations = R"(
extern "C" {
void* hetsynth_nccl_host_communicator(HetsynthContext*, int axis);
void* hetsynth_nccl_leader_communicator(HetsynthContext*, int axis);
}
)";

std::string nccl_type(DType dtype) {
  switch (dtype) {
    case DType::i32:
      return "nccl_int32";
    case DType::bf16:
      return "nccl_bfloat16";
    case DType::fp16:
      return "nccl_float16";
    case DType::f32:
      break;
  }
  return "nccl_float32";
}

std::string_view nccl_op(ReduceOp op) {
  switch (op) {
    case ReduceOp::sum:
      return "nccl_sum";
    case ReduceOp::max:
      return "nccl_max";
    case ReduceOp::average:
      return "nccl_average";
    case ReduceOp::min:
      return "nccl_min";
    case ReduceOp::product:
      return "nccl_product";
  }
  return "nccl_sum";
}

/// Who a call of NCCL is over, in generated text.
struct OverWords {
  const char *function, *ranks, *stream;
};
const OverWords& words_of(NcclCall::Over over) {
  static constexpr OverWords words[] = {{"", "_ranks", "communication_stream"},
                                        {"host_", "_host_ranks", "communication_stream"},
                                        {"leader_", "_leaders", "communication_stream"},
                                        {"rising_", "_rising", "rising_stream"},
                                        {"falling_", "_falling", "falling_stream"}};
  return words[size_t(over)];
}

class HostPrinter {
 public:
  HostPrinter(const DeviceSchedule& schedule, const Cluster& cluster)
      : schedule_(schedule),
        lowered_(schedule.lowered),
        local_(schedule.lowered.local),
        program_(*schedule.lowered.program),
        cluster_(cluster) {}

  std::string print() {
    Lines steps(1);
    for (size_t i = 0; i < schedule_.steps.size(); ++i) print_step(steps, int(i));
    wait_for(steps, schedule_.wait_at_end);
    for (const MemoryPlan::Copy& copy : lowered_.memory.copies) {
      steps.add(fmt::format("// new contents of {}", name(copy.to)));
      steps.add(fmt::format("if (hetsynth_device_copy(context, compute_stream, {}, {}, {})) return 1;",
                            pointer(copy.to), pointer(copy.from), bytes(copy.to)));
    }
    Lines out(0);
    head(out);
    out.append("\ntypedef long long int64;\n" + context_declaration(true) + std::string(declarations));
    const auto uses = [&](NcclCall::Over a, NcclCall::Over b) {
      return std::ranges::any_of(communicators_, [&](const auto& c) { return c.second == a || c.second == b; });
    };
    if (uses(NcclCall::Over::host, NcclCall::Over::leaders)) out.append(hierarchical_declarations);
    if (uses(NcclCall::Over::rising, NcclCall::Over::falling)) out.append(sending_declarations);
    if (attention_number_ > 0) out.append(std::string(attention_declarations()));
    out.append(collective_declarations(steps.text()));
    if (!collectives_.tables().empty()) out.append("\n" + collectives_.tables());
    kernel_table(out);
    out.add("");
    out.open("extern \"C\" int hetsynth_step(HetsynthContext* context) {");
    out.add("char* const arena = context->arena;");
    out.add("(void)arena;");
    pointers(out);
    for (const auto& [axis, over] : communicators_)
      out.add(fmt::format("void* const {} = hetsynth_nccl_{}communicator(context, {});", ranks_name(axis, over),
                          words_of(over).function, axis));
    out.append(steps.text());
    out.add("return 0;");
    out.close();
    return out.text();
  }

 private:
  const std::string& name(ValueId value) const { return lowered_.names[value]; }
  int64_t bytes(ValueId value) const {
    return local_.values[value].count() * size_bytes(local_.values[value].type.dtype);
  }

  /// Name of a pointer to the value's first element; remembered for declaration.
  std::string pointer(ValueId value) {
    pointers_.insert(value);
    return name(value);
  }

  std::string axis_name(int axis) const {
    std::string out;
    for (char c : program_.mesh.axes[size_t(axis)].name) out += std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
    return out;
  }

  /// Of the ranks that take part in a call.
  std::string ranks_name(int axis, NcclCall::Over over) const { return axis_name(axis) + words_of(over).ranks; }

  void head(Lines& out) const {
    const Device& device = cluster_.devices.at(size_t(local_.rank));
    out.add(fmt::format("// Training step of {}, rank {} of {}: device {} ({}{}{}). Host side.",
                        lowered_.reference->model_file, local_.rank, program_.mesh.device_count(), device.name,
                        device.model, device.architecture.empty() ? "" : ", ", device.architecture));
    out.add(
        "// Everything is issued in order to streams; the only places where one waits for another are the events "
        "below.");
  }

  void kernel_table(Lines& out) const {
    std::string numbers, names;
    int count = 0;
    for (const ScheduledStep& s : schedule_.steps)
      for (const Kernel& kernel : s.kernels.kernels) {
        if (kernel.text.empty()) continue;  // launches one that is there already
        numbers += fmt::format("  kernel_{} = {},\n", kernel.name, count);
        names += fmt::format("    \"{}\",\n", kernel.name);
        ++count;
      }
    out.add("");
    out.append("enum {\n" + numbers + fmt::format("  kernel_count = {}\n}};\n", count));
    out.append(
        fmt::format("extern \"C\" {{\nextern const int hetsynth_kernel_count, hetsynth_event_count;\n"
                    "extern const char* const hetsynth_kernels[];\nconst int hetsynth_kernel_count = kernel_count, "
                    "hetsynth_event_count = {};\nconst char* const hetsynth_kernels[] = {{\n{}    0}};\n}}\n",
                    schedule_.events, names));
  }

  void pointers(Lines& out) const {
    for (ValueId value : pointers_) {
      const LocalValue& v = local_.values[value];
      out.add(fmt::format("{0}* const {1} = ({0}*)(arena + {2});  // {3}", memory_type(v.type.dtype), name(value),
                          lowered_.memory.offset_bytes[value], part_text(v)));
    }
  }

  void print_step(Lines& out, int number) {
    const ScheduledStep& s = schedule_.steps[size_t(number)];
    out.add("");
    wait_for(out, s.wait_for);
    for (const int later : s.let_begin) {
      const ScheduledStep& transfer = schedule_.steps[size_t(later)];
      out.add(fmt::format("if (hetsynth_record(context, {}, compute_stream)) return 1;  // what {} needs is there",
                          transfer.event, text_of(transfer)));
    }
    switch (s.step.kind) {
      case LaunchStep::Kind::kernel:
      case LaunchStep::Kind::scatter:
      case LaunchStep::Kind::attention:
        for (int op : s.step.ops()) comment(out, local_.ops[size_t(op)]);
        if (s.step.call) print_attention_call(out, s);
        for (const Kernel& kernel : s.kernels.kernels) print_launch(out, s, kernel);
        break;
      case LaunchStep::Kind::product:
        for (int op : s.step.ops()) comment(out, local_.ops[size_t(op)]);
        print_product(out, s.step);
        break;
      case LaunchStep::Kind::collective:
        print_collective(out, s, number);
        break;
    }
  }

  void comment(Lines& out, const LocalOp& op) const { out.add("// " + origin_text(lowered_, op)); }

  void wait_for(Lines& out, const std::vector<int>& transfers) const {
    for (int step : transfers) {
      const ScheduledStep& s = schedule_.steps[size_t(step)];
      out.add(fmt::format("if (hetsynth_wait(context, {}, compute_stream)) return 1;  // {} has arrived", s.event + 1,
                          text_of(s)));
    }
  }

  /// What a transfer makes.
  std::string text_of(const ScheduledStep& s) const {
    const std::vector<int>& collectives = s.step.collectives;
    const std::string& first = name(local_.ops[size_t(collectives.front())].result);
    return collectives.size() == 1 ? first : fmt::format("the bucket of {} and {} more", first, collectives.size() - 1);
  }

  static const char* stream_of(const ScheduledStep& s) {
    return s.transfer.calls.empty() ? "communication_stream" : words_of(s.transfer.calls.front().over).stream;
  }

  std::string scratch(const ScheduledStep& s, int number) const {
    return fmt::format("arena + {}", s.scratch_offset[size_t(number)]);
  }

  void print_launch(Lines& out, const ScheduledStep& s, const Kernel& kernel) {
    std::string arguments;
    for (const KernelArgument& argument : kernel.arguments) {
      arguments += ", ";
      switch (argument.kind) {
        case KernelArgument::Kind::storage:
          arguments += pointer(argument.value);
          break;
        case KernelArgument::Kind::scratch:
          arguments += scratch(s, argument.scratch);
          break;
        case KernelArgument::Kind::clock:
          arguments += "context->clock";
          break;
      }
    }
    out.add(fmt::format("if (launch(context, compute_stream, kernel_{}, {}, {}{})) return 1;", kernel.name,
                        kernel.blocks, kernel.threads, arguments));
  }

  void print_attention_call(Lines& out, const ScheduledStep& s) {
    const AttentionCall& call = *s.step.call;
    const auto place = [&](const AttentionTensor& tensor) {
      return tensor.offset ? fmt::format("{} + {}", pointer(tensor.value), tensor.offset) : pointer(tensor.value);
    };
    const int number = attention_number_++;
    /// A pointer to scratch memory of a step, declared under its name and the call's number.
    const auto declare = [&](const ScheduledStep& step, int scratch, const std::string& type, const std::string& word) {
      const std::string pointer_name = fmt::format("attention_{}_{}", word, number);
      out.add(fmt::format("{0}* const {1} = ({0}*)(arena + {2});", type, pointer_name,
                          step.scratch_offset[size_t(scratch)]));
      return pointer_name;
    };
    const std::string rounded(memory_type(DType::bf16));
    AttentionCallPlaces places;
    places.q = place(call.q), places.k = place(call.k), places.v = place(call.v);
    const ScheduledStep& left = s.forward < 0 ? s : schedule_.steps[size_t(s.forward)];
    places.o = declare(left, attention_scratch_result, rounded, "result");
    const bool statistics = call.backward || call.keeps_statistics;
    places.statistics = statistics ? declare(left, attention_scratch_statistics, "float", "statistics") : "0";
    if (call.backward) {
      places.o_gradient = place(call.o_gradient);
      for (int i = 0; i < 3; ++i) places.gradients[size_t(i)] = declare(s, i, rounded, std::string("by_") + "qkv"[i]);
    }
    const int workspace = int(s.kernels.scratch_bytes.size()) - 1;
    places.workspace = declare(s, workspace, "float", "workspace");
    places.workspace_bytes = s.kernels.scratch_bytes[size_t(workspace)];
    attention_call_text(out, call, places, number);
  }

  void print_product(Lines& out, const LaunchStep& step) {
    const LocalOp& op = local_.ops[size_t(step.op)];
    const Contraction& c = *step.contraction;
    const DType operands = local_.values[size_t(op.inputs[size_t(c.a)].value)].type.dtype;
    const auto place = [&](ValueId value) { return pointer(value); };
    if (step.epilogue)
      product_then_text(out, op, c, *step.epilogue, operands, place);
    else
      product_text(out, op, c, operands, place);
  }

  const LocalOp& collective(const ScheduledStep& s, int number) const {
    return local_.ops[size_t(s.step.collectives[size_t(number)])];
  }
  DType type_of(const ScheduledStep& s, int number) const {
    return local_.values[size_t(collective(s, number).result)].type.dtype;
  }

  std::string where(const ScheduledStep& s, const Spot& spot) {
    const LocalOp& op = collective(s, spot.collective);
    switch (spot.kind) {
      case Spot::Kind::source:
        return pointer(op.inputs[0].value) + (spot.offset ? fmt::format(" + {}", spot.offset) : "");
      case Spot::Kind::result:
        return pointer(op.result) + (spot.offset ? fmt::format(" + {}", spot.offset) : "");
      case Spot::Kind::scratch:
        return fmt::format("arena + {}", s.scratch_offset[size_t(spot.scratch)] +
                                             spot.offset * size_bytes(type_of(s, spot.collective)));
    }
    return "";
  }

  void print_collective(Lines& out, const ScheduledStep& s, int number) {
    const std::vector<int>& ops = s.step.collectives;
    const Instruction& first = *local_.ops[size_t(ops.front())].collective;
    for (const NcclCall& call : s.transfer.calls) communicators_.insert({first.axis, call.over});
    if (ops.size() > 1) bucket_comment(out, s);
    for (size_t i = 0; i < ops.size(); ++i) {
      const std::string shares = s.transfer.shares.empty() ? "" : s.transfer.shares[i];
      out.add("// " + collective_text(lowered_, local_.ops[size_t(ops[i])]) + (shares.empty() ? "" : "; " + shares));
    }
    const std::string stream = stream_of(s);
    if (s.begins == number)
      out.add(fmt::format(
          "if (hetsynth_record(context, {0}, compute_stream) || hetsynth_wait(context, {0}, {1})) return 1;", s.event,
          stream));
    else
      out.add(fmt::format("if (hetsynth_wait(context, {}, {})) return 1;", s.event, stream));
    if (s.transfer.through_host) print_through_host(out, local_.ops[size_t(ops.front())]);
    size_t kernel = 0;
    for (const Transfer::Repack& repack : s.transfer.pack) repack_line(out, s, s.kernels.kernels[kernel++], repack);
    for (const Transfer::Copy& copy : s.transfer.copies_before) copy_line(out, s, copy);
    for (const NcclPhase& phase : phases_of(s.transfer.calls)) {
      if (phase.grouped) out.add("if (ncclGroupStart()) return 1;");
      for (size_t c = phase.first; c < phase.last; ++c)
        out.add("if (" + call_text(s, s.transfer.calls[c]) + ") return 1;");
      if (phase.grouped) out.add("if (ncclGroupEnd()) return 1;");
    }
    for (const Transfer::Copy& copy : s.transfer.copies_after) copy_line(out, s, copy);
    for (const Transfer::Repack& repack : s.transfer.unpack) repack_line(out, s, s.kernels.kernels[kernel++], repack);
    out.add(fmt::format("if (hetsynth_record(context, {}, {})) return 1;", s.event + 1, stream));
  }

  void bucket_comment(Lines& out, const ScheduledStep& s) const {
    const std::vector<int>& ops = s.step.collectives;
    int64_t received = 0;
    for (int op : ops) received += received_bytes(lowered_, local_.ops[size_t(op)]);
    out.add(fmt::format(
        "// A bucket of {} gradients over {}, {} received; it starts as soon as the last of them is there:", ops.size(),
        axis_name(collective(s, 0).collective->axis), bytes_text(received)));
  }

  /// The group holds cpu devices: the runtime waits for the communication stream, and copies.
  void print_through_host(Lines& out, const LocalOp& op) {
    std::string before, source = op.inputs.empty() ? "nullptr" : pointer(op.inputs[0].value);
    std::string result = local_.values[size_t(op.result)].held ? pointer(op.result) : "";
    std::string call = collectives_.call(op, source, result, before);
    if (!before.empty()) out.add(before);
    out.add(fmt::format("if ({}) return 1;", call));
  }

  void repack_line(Lines& out, const ScheduledStep& s, const Kernel& kernel, const Transfer::Repack& repack) {
    const std::string own = repack.pieces.own >= 0 ? where(s, repack.own) + ", " : "";
    out.add(fmt::format("if (launch(context, {}, kernel_{}, {}, {}, {}, {}{})) return 1;", stream_of(s), kernel.name,
                        kernel.blocks, kernel.threads, where(s, repack.from), own, where(s, repack.to)));
  }

  void copy_line(Lines& out, const ScheduledStep& s, const Transfer::Copy& copy) {
    out.add(fmt::format("if (hetsynth_device_copy(context, {}, {}, {}, {})) return 1;", stream_of(s), where(s, copy.to),
                        where(s, copy.from), copy.count * size_bytes(type_of(s, copy.from.collective))));
  }

  std::string call_text(const ScheduledStep& s, const NcclCall& call) {
    const LocalOp& op = collective(s, call.collective);
    // Who only sends has no result here, who only receives no operand.
    const bool sends = call.kind == NcclCall::Kind::send, receives = call.kind == NcclCall::Kind::receive;
    std::string from = receives ? "" : where(s, call.from), to = sends ? "" : where(s, call.to),
                type = nccl_type(type_of(s, call.collective));
    std::string_view reduce = nccl_op(op.collective->reduce);
    std::string rest = fmt::format("{}, context->{})", ranks_name(op.collective->axis, call.over), stream_of(s));
    switch (call.kind) {
      case NcclCall::Kind::all_gather:
        return fmt::format("ncclAllGather({}, {}, {}, {}, {}", from, to, call.count, type, rest);
      case NcclCall::Kind::all_reduce:
        return fmt::format("ncclAllReduce({}, {}, {}, {}, {}, {}", from, to, call.count, type, reduce, rest);
      case NcclCall::Kind::reduce_scatter:
        return fmt::format("ncclReduceScatter({}, {}, {}, {}, {}, {}", from, to, call.count, type, reduce, rest);
      case NcclCall::Kind::broadcast:
        return fmt::format("ncclBroadcast({}, {}, {}, {}, {}, {}", from, to, call.count, type, call.peer, rest);
      case NcclCall::Kind::reduce:
        return fmt::format("ncclReduce({}, {}, {}, {}, {}, {}, {}", from, to, call.count, type, reduce, call.peer,
                           rest);
      case NcclCall::Kind::send:
        return fmt::format("ncclSend({}, {}, {}, {}, {}", from, call.count, type, call.peer, rest);
      case NcclCall::Kind::receive:
        return fmt::format("ncclRecv({}, {}, {}, {}, {}", to, call.count, type, call.peer, rest);
    }
    return "";
  }

  const DeviceSchedule& schedule_;
  const Lowered& lowered_;
  const LocalProgram& local_;
  const SpmdProgram& program_;
  const Cluster& cluster_;
  std::set<ValueId> pointers_;
  int attention_number_ = 0;                                ///< calls of cuDNN so far
  std::set<std::pair<int, NcclCall::Over>> communicators_;  ///< by axis
  Names table_names_;
  CollectiveText collectives_{lowered_, table_names_};
};

}  // namespace

std::string_view host_declarations() { return declarations; }

std::string host_text(const DeviceSchedule& schedule, const Cluster& cluster) {
  return HostPrinter(schedule, cluster).print();
}

std::string kernels_text(const DeviceSchedule& schedule, const Cluster& cluster) {
  const Device& device = cluster.devices.at(size_t(schedule.lowered.local.rank));
  std::string out = fmt::format("// Training step of {}, rank {} of {}: device {} ({}{}{}). Kernels.\n",
                                schedule.lowered.reference->model_file, schedule.lowered.local.rank,
                                schedule.lowered.program->mesh.device_count(), device.name, device.model,
                                device.architecture.empty() ? "" : ", ", device.architecture);
  out += prelude();
  for (const ScheduledStep& s : schedule.steps)
    for (const Kernel& kernel : s.kernels.kernels)
      if (!kernel.text.empty()) out += "\n" + kernel.text;
  return out;
}

}  // namespace hetsynth::codegen::cuda
