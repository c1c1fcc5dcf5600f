#include "codegen/cuda/host/device_schedule.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <limits>
#include <map>
#include <set>

#include "codegen/cuda/attention/attention_call_text.h"
#include "codegen/cuda/attention/attention_kernels.h"
#include "codegen/cuda/attention/tensor_attention.h"
#include "codegen/cuda/plan/epilogue.h"
#include "codegen/passes/places.h"
#include "dsl/base/error.h"

namespace hetsynth::codegen::cuda {
namespace {

constexpr int64_t alignment = 256;  // what vector accesses and tensor cores ask for at most

int64_t aligned(int64_t bytes) { return (bytes + alignment - 1) / alignment * alignment; }

class Scheduler {
 public:
  Scheduler(const Program& reference, const BucketedProgram& bucketed, const Cluster& cluster, int rank,
            ElementTypes types, int64_t most_under_way_bytes)
      : program_(bucketed.program),
        bucket_of_(bucketed.bucket_of),
        cluster_(cluster),
        types_(std::move(types)),
        most_under_way_bytes_(most_under_way_bytes) {
    out_.lowered.reference = &reference;
    out_.lowered.program = &program_;
    out_.lowered.local = localize(reference, program_, rank);
    for (FusedAttention& nest : fuse_attention(out_.lowered.local, reference)) attention_.push_back(std::move(nest));
    out_.lowered.layouts = lay_out(out_.lowered.local);
    std::erase_if(attention_, [&](const FusedAttention& nest) {
      return !can_be_written(nest, out_.lowered.local, out_.lowered.layouts) ||
             (!by_tensor_cores(nest) &&
              !attention_has_kernels(nest, out_.lowered.local, out_.lowered.layouts, reference));
    });
    if (cluster_.devices.at(size_t(rank)).attention() == AttentionBy::cudnn) leave_to_cudnn();
    out_.lowered.names = name_values(out_.lowered.local, reference);
    for (std::string& name : out_.lowered.names)
      if (is_kernel_word(name)) name += "_tensor";
  }

  DeviceSchedule run() {
    const Device& device = cluster_.devices.at(size_t(local().rank));
    std::vector<LaunchStep> steps = fuse(local(), layouts(), attention_, buckets());
    for (LaunchStep& step :
         fuse_epilogues(std::move(steps), *out_.lowered.reference, local(), layouts(), device.epilogues()))
      out_.steps.push_back({.step = std::move(step)});
    place_calls();
    plan_transfers();
    place_waits();
    let_begin();
    find_last_uses();
    for (const auto& [target, value] : local().finals) settle_final(target, value);
    for (int at = 0; at < end(); ++at)
      if (const int begins = out_.steps[at].begins; begins >= 0 && begins < at)
        out_.steps[size_t(begins)].let_begin.push_back(at);
    print_kernels();
    place_memory();
    return std::move(out_);
  }

 private:
  bool by_tensor_cores(const FusedAttention& nest) const {
    return attention_has_tensor_kernels(nest, out_.lowered.local, out_.lowered.layouts, *out_.lowered.reference,
                                        cluster_.devices.at(size_t(out_.lowered.local.rank)).architecture);
  }

  /// What only the generated kernels would read is not computed where calls stand for them.
  void leave_to_cudnn() {
    const auto describe = [&] { return attention_calls(attention_, local(), layouts(), *out_.lowered.reference); };
    calls_ = describe();
    std::set<ValueId> needless;
    for (const auto& call : calls_)
      if (call) needless.insert(call->not_needed.begin(), call->not_needed.end());
    for (size_t i = 0; i < attention_.size(); ++i)
      for (ValueId value : attention_[i].values()) {
        needless.erase(value);
        if (!calls_[i]) keep_operands(value, needless);
      }
    std::set<ValueId> of_calls;
    for (size_t i = 0; i < attention_.size(); ++i)
      if (calls_[i])
        for (ValueId value : attention_[i].values()) of_calls.insert(value);
    for (const LocalOp& op : local().ops)
      if (!of_calls.count(op.result)) keep_operands(op.result, needless);
    std::erase_if(needless, [&](ValueId value) { return local().pinned[size_t(value)]; });
    if (needless.empty()) return;
    LocalProgram before = local();
    std::erase_if(local().ops, [&](const LocalOp& op) { return needless.count(op.result) > 0; });
    layouts() = lay_out(local());
    // Layouts of the rest may have become others.
    const auto again = describe();
    const bool same =
        std::ranges::equal(calls_, again, [](const auto& a, const auto& b) { return a.has_value() == b.has_value(); });
    if (same) {
      calls_ = again;
      return;
    }
    local() = std::move(before);
    layouts() = lay_out(local());
    calls_.clear();
  }
  void keep_operands(ValueId result, std::set<ValueId>& needless) {
    for (const LocalOp& op : local().ops)
      if (op.result == result)
        for (const Operand& operand : op.inputs) needless.erase(operand.value);
  }

  /// Calls take the places of the kernels; the gradient's reads what the forward call leaves.
  void place_calls() {
    for (size_t i = 0; i < calls_.size(); ++i) {
      if (!calls_[i]) continue;
      for (ScheduledStep& s : out_.steps)
        if (s.step.attention && s.step.attention->products == attention_[i].products) s.step.call = calls_[i];
      HETSYNTH_CHECK(std::ranges::any_of(out_.steps,
                                         [&](const ScheduledStep& s) {
                                           return s.step.call && s.step.call->writes() == calls_[i]->writes();
                                         }),
                     "attention left to cuDNN is one step");
    }
    for (ScheduledStep& s : out_.steps) {
      if (!s.step.call || !s.step.call->backward) continue;
      for (int at = 0; at < end(); ++at) {
        const std::optional<AttentionCall>& forward = out_.steps[size_t(at)].step.call;
        if (forward && !forward->backward && std::ranges::count(s.step.call->not_needed, forward->maximum))
          s.forward = at;
      }
      if (s.forward >= 0) out_.steps[size_t(s.forward)].step.call->keeps_statistics = true;
      HETSYNTH_CHECK(s.forward >= 0, "the gradient of attention by cuDNN follows the forward call");
    }
  }

  LocalProgram& local() { return out_.lowered.local; }
  Layouts& layouts() { return out_.lowered.layouts; }
  MemoryPlan& memory() { return out_.lowered.memory; }
  int end() const { return int(out_.steps.size()); }
  ValueId buffer(ValueId value) { return layouts().of[value].buffer; }
  bool is_collective(int step) const { return out_.steps[step].step.kind == LaunchStep::Kind::collective; }

  /// By local operator: the bucket of a collective, -1: none.
  std::vector<int> buckets() {
    std::map<ValueId, int> of_result;
    for (size_t i = 0; i < bucket_of_.size(); ++i)
      if (bucket_of_[i] >= 0) of_result[program_.instructions[i].result] = bucket_of_[i];
    std::vector<int> out(local().ops.size(), -1);
    for (size_t i = 0; i < out.size(); ++i)
      if (const auto& collective = local().ops[i].collective)
        if (const auto found = of_result.find(collective->result); found != of_result.end()) out[i] = found->second;
    return out;
  }

  void plan_transfers() {
    for (ScheduledStep& s : out_.steps) {
      if (s.step.kind != LaunchStep::Kind::collective) continue;
      if (holds_cpu_devices(local().ops[s.step.collectives.front()].collective->axis))
        s.transfer.through_host = true;
      else
        s.transfer = plan_transfer(program_, local(), s.step.collectives);
      s.event = out_.events;
      out_.events += 2;
    }
  }

  /// Whether this rank's group along an axis is not of GPUs alone.
  bool holds_cpu_devices(int axis) const {
    for (int member : program_.mesh.group(out_.lowered.local.rank, axis))
      if (cluster_.devices.at(size_t(member)).kind != DeviceKind::cuda) return true;
    return false;
  }

  /// Values a step reads from memory, and those it makes.
  template <class Visit>
  void each_read(int step, const Visit& visit) {
    const LaunchStep& s = out_.steps[step].step;
    std::vector<int> ops = s.ops();
    for (size_t m = 0; m < ops.size(); ++m)
      for (size_t j = 0; j < local().ops[ops[m]].inputs.size(); ++j)
        if (from_memory(s, m, local().ops[ops[m]].inputs[j].value, j)) visit(local().ops[ops[m]].inputs[j].value, m, j);
  }

  static bool from_memory(const LaunchStep& s, size_t member, ValueId value, size_t input) {
    if (s.kind == LaunchStep::Kind::kernel) return s.group.sources[member][input] < 0;
    if (s.epilogue) return std::ranges::count(s.epilogue->passed_on, value) == 0;
    if (s.kind != LaunchStep::Kind::attention) return true;
    if (s.call) return std::ranges::count(s.call->reads(), value) > 0;
    // Row values of a forward nest stay in registers until it is done.
    const std::vector<ValueId> hidden = s.attention->hidden();
    const bool own_row = !s.attention->backward && (value == s.attention->maximum || value == s.attention->total);
    return !own_row && std::find(hidden.begin(), hidden.end(), value) == hidden.end();
  }

  /// Compute waits for a transfer right before the first step that reads its result, or earlier where more bytes than
  /// wanted are under way: until then what the transfer reads has to stay.
  void place_waits() {
    std::map<ValueId, int> pending;  // result -> collective
    std::deque<std::pair<int, int64_t>> under_way;
    int64_t bytes = 0;
    for (int at = 0; at < end(); ++at) {
      const auto wait = [&](int transfer) {
        out_.steps[at].wait_for.push_back(transfer);
        waited_[transfer] = at;
        std::erase_if(pending, [&](const auto& other) { return other.second == transfer; });
      };
      each_read(at, [&](ValueId value, size_t, size_t) {
        if (auto found = pending.find(buffer(value)); found != pending.end()) wait(found->second);
      });
      // The last one stays under way unless nothing may.
      const size_t stay = most_under_way_bytes_ > 0;
      for (; under_way.size() > stay && bytes > most_under_way_bytes_; under_way.pop_front()) {
        if (!waited_.contains(under_way.front().first)) wait(under_way.front().first);
        bytes -= under_way.front().second;
      }
      if (!is_collective(at)) continue;
      under_way.emplace_back(at, 0);
      for (int op : out_.steps[at].step.collectives) pending[buffer(local().ops[op].result)] = at;
      each_read(at, [&](ValueId value, size_t, size_t) { under_way.back().second += bytes_of(value); });
      bytes += under_way.back().second;
    }
    for (const auto& entry : pending) out_.wait_at_end.push_back(entry.second);
    std::sort(out_.wait_at_end.begin(), out_.wait_at_end.end());
    out_.wait_at_end.erase(std::unique(out_.wait_at_end.begin(), out_.wait_at_end.end()), out_.wait_at_end.end());
    for (int step : out_.wait_at_end) waited_[step] = end();
  }

  /// As soon as compute is past what a transfer reads, or has waited for it. Among transfers in order, results that
  /// have a place ahead of their step take no more bytes together than wanted.
  void let_begin() {
    std::map<ValueId, int> there;  // buffer -> the first step before which it is made
    std::deque<std::pair<int, int64_t>> ahead;
    int64_t bytes = 0;
    for (int at = 0; at < end(); ++at) {
      if (is_collective(at)) {
        ScheduledStep& s = out_.steps[at];
        s.begins = 0;
        each_read(at, [&](ValueId value, size_t, size_t) {
          if (auto made = there.find(buffer(value)); made != there.end()) s.begins = std::max(s.begins, made->second);
        });
        ahead.emplace_back(at, 0);
        for (int op : s.step.collectives) {
          const ValueId result = local().ops[op].result;
          ahead.back().second += bytes_of(result);
          if (buffer(result) != result) s.begins = at;  // a part of something that may not be there before
        }
        bytes += ahead.back().second;
        for (; !ahead.empty() && bytes > most_under_way_bytes_; ahead.pop_front()) {
          bytes -= ahead.front().second;
          s.begins = std::max(s.begins, ahead.front().first);
        }
      }
      for (int op : out_.steps[at].step.ops()) {
        int& made = there[buffer(local().ops[op].result)];
        made = std::max(made, is_collective(at) ? waited_.at(at) : at + 1);
      }
    }
  }

  void find_last_uses() {
    made_.assign(local().values.size(), -1);
    last_.assign(local().values.size(), -1);
    sent_until_ = last_;
    for (int at = 0; at < end(); ++at) {
      for (int op : out_.steps[at].step.ops()) made_[local().ops[op].result] = at;
      // Before the step that waits for a transfer it is done.
      const int until = is_collective(at) ? std::max(at, waited_.at(at) - 1) : at;
      each_read(at,
                [&](ValueId value, size_t, size_t) { last_[buffer(value)] = std::max(last_[buffer(value)], until); });
      if (is_collective(at))
        each_read(at, [&](ValueId value, size_t, size_t) {
          sent_until_[buffer(value)] = std::max(sent_until_[buffer(value)], waited_.at(at));
        });
    }
    // Results of collectives: until compute has waited, even if nobody reads them.
    for (int at = 0; at < end(); ++at)
      if (is_collective(at))
        for (int op : out_.steps[at].step.collectives) {
          ValueId result = local().ops[op].result;
          last_[result] = std::max(last_[result], waited_.at(at));
        }
    auto keep = [&](ValueId value) { last_[buffer(value)] = end(); };
    for (const auto& output : local().outputs) keep(output.second);
    if (local().loss >= 0) keep(local().loss);
  }

  void settle_final(NodeId target, ValueId value) {
    ValueId leaf = -1;
    for (ValueId l : local().leaves)
      if (local().values[l].node == target) leaf = l;
    if (leaf == value || local().values[value].count() == 0) return;
    if (can_overwrite(leaf, value)) {
      layouts().of[value].buffer = leaf;
      last_[leaf] = end();
    } else {
      memory().copies.push_back({value, leaf});
      last_[buffer(value)] = end();
    }
  }

  bool can_overwrite(ValueId leaf, ValueId value) {
    if (buffer(value) != value || made_[value] < 0 || last_[leaf] > made_[value] || sent_until_[leaf] > made_[value])
      return false;
    const LaunchStep& maker = out_.steps[made_[value]].step;
    bool safe = true;
    each_read(made_[value], [&](ValueId read, size_t member, size_t input) {
      if (buffer(read) != leaf) return;
      bool by_element = maker.kind == LaunchStep::Kind::kernel && !maker.group.reduces;
      safe = safe && by_element && reads_own_element(maker.group, member, int(input));
    });
    // A transfer waits for the last reader of the old contents.
    if (int& begins = out_.steps[made_[value]].begins; safe && begins >= 0)
      begins = std::min(made_[value], std::max({begins, last_[leaf] + 1, sent_until_[leaf]}));
    return safe;
  }

  /// Each thread reads of the operand exactly the element at its own position.
  bool reads_own_element(const KernelGroup& group, size_t member, int input) {
    const LocalOp& op = local().ops[group.ops[member]];
    Address read = layouts().read(op, input);
    if (!read.affine() || op.inputs[input].access.zero_outside) return false;
    if (read.constant + layouts().of[op.inputs[input].value].offset != 0) return false;
    for (size_t f = 0; f < op.factors.size(); ++f)
      if (op.extent(int(f)) != 1 && read.coefficients[f] != group.roles[member].stride[f]) return false;
    return true;
  }

  // ---- kernels ----

  void print_kernels() {
    std::vector<bool> stored(local().values.size(), false);
    mark_stored(stored);
    KernelContext context{out_.lowered, stored, types_};
    Names names;
    for (ScheduledStep& s : out_.steps) {
      if (s.step.kind == LaunchStep::Kind::kernel)
        s.kernels = group_kernels(context, s.step.group, names.take("compute_" + main_result(s.step.group)));
      if (s.step.call) {
        s.kernels = attention_call_kernels(context, *s.step.call, names);
      } else if (s.step.kind == LaunchStep::Kind::attention) {
        const ValueId result = s.step.attention->products.front();
        const std::string name = names.take("attention_" + out_.lowered.names[result]);
        s.kernels = by_tensor_cores(*s.step.attention) ? tensor_attention_kernels(context, *s.step.attention, name)
                                                       : attention_kernels(context, *s.step.attention, name);
      }
      if (s.step.kind == LaunchStep::Kind::scatter) {
        const LocalOp& op = local().ops[s.step.op];
        s.kernels =
            scatter_kernels(context, op, s.step.scatter, names.take("compute_" + out_.lowered.names[op.result]));
      }
      if (s.step.kind == LaunchStep::Kind::collective) print_packing(s, names);
    }
  }

  void mark_stored(std::vector<bool>& stored) {
    for (int at = 0; at < end(); ++at)
      each_read(at, [&](ValueId value, size_t, size_t) { stored[source_buffer(value)] = true; });
    for (const auto& final : local().finals) stored[final.second] = true;
    for (const auto& output : local().outputs) stored[source_buffer(output.second)] = true;
    if (local().loss >= 0) stored[source_buffer(local().loss)] = true;
  }

  /// The value that is computed into the storage: differs from `buffer` for updates in place.
  ValueId source_buffer(ValueId value) { return made_[value] >= 0 ? value : buffer(value); }

  const std::string& main_result(const KernelGroup& group) {
    return out_.lowered.names[local().ops[group.ops.back()].result];
  }

  void print_packing(ScheduledStep& s, Names& names) {
    auto collective = [&](int number) -> const LocalOp& { return local().ops[s.step.collectives[size_t(number)]]; };
    auto dtype = [&](const LocalOp& op) { return local().values[op.result].type.dtype; };
    auto source = [&](const LocalOp& op) {
      return out_.lowered.names[op.inputs.empty() ? op.result : op.inputs[0].value];
    };
    for (const Transfer::Repack& repack : s.transfer.pack) {
      const LocalOp& op = collective(repack.from.collective);
      s.kernels.kernels.push_back(piece_copy_kernel(repack.pieces, dtype(op), types_,
                                                    {names.take("pack_" + source(op)), source(op), "shares"}));
    }
    for (const Transfer::Repack& repack : s.transfer.unpack) {
      const LocalOp& op = collective(repack.to.collective);
      const std::string& result = out_.lowered.names[op.result];
      s.kernels.kernels.push_back(piece_copy_kernel(repack.pieces, dtype(op), types_,
                                                    {names.take("unpack_" + result), "shares", result, source(op)}));
    }
    for (const Transfer::Scratch& scratch : s.transfer.scratch)
      s.kernels.scratch_bytes.push_back(scratch.elements * size_bytes(dtype(collective(scratch.collective))));
  }

  // ---- memory ----

  void place_memory() {
    MemoryPlan& plan = memory();
    plan.offset_bytes.assign(local().values.size(), -1);
    for (ValueId leaf : local().leaves) {
      plan.offset_bytes[leaf] = plan.arena_bytes;
      plan.arena_bytes += bytes_of(leaf);
    }
    std::vector<Lifetime> lives;  // in steps
    std::vector<int64_t*> offsets;
    auto add = [&](const Lifetime& live, int64_t* offset) { lives.push_back(live), offsets.push_back(offset); };
    for (ValueId v = 0; v < ValueId(local().values.size()); ++v)
      if (made_[v] >= 0 && buffer(v) == v && in_memory(v))
        add({bytes_of(v), written_from(made_[v]), std::max(made_[v], last_[v])}, &plan.offset_bytes[v]);
    for (int at = 0; at < end(); ++at)
      if (const int forward = out_.steps[at].forward; forward >= 0) {
        std::vector<int>& until = out_.steps[size_t(forward)].scratch_until;
        until.assign(out_.steps[size_t(forward)].kernels.scratch_bytes.size(), forward);
        until.at(attention_scratch_result) = until.at(attention_scratch_statistics) = at;
      }
    for (int at = 0; at < end(); ++at) {
      ScheduledStep& s = out_.steps[at];
      s.scratch_offset.assign(s.kernels.scratch_bytes.size(), 0);
      for (size_t i = 0; i < s.scratch_offset.size(); ++i)
        add({aligned(s.kernels.scratch_bytes[i]), written_from(at),
             is_collective(at)         ? waited_.at(at)
             : s.scratch_until.empty() ? at
                                       : s.scratch_until[i]},
            &s.scratch_offset[i]);
    }
    const Places places = place(lives);
    for (size_t i = 0; i < lives.size(); ++i) *offsets[i] = plan.arena_bytes + places.offset_bytes[i];
    plan.arena_bytes += places.bytes;
    for (size_t v = 0; v < local().values.size(); ++v) {
      const Layout& layout = layouts().of[v];
      if (layout.buffer != ValueId(v) && plan.offset_bytes[layout.buffer] >= 0)
        plan.offset_bytes[v] =
            plan.offset_bytes[layout.buffer] + layout.offset * size_bytes(local().values[v].type.dtype);
      if (local().values[v].count() == 0) plan.offset_bytes[v] = 0;  // nothing of it here
    }
  }

  /// The step before which something may be written for this step.
  int written_from(int step) const { return is_collective(step) ? out_.steps[size_t(step)].begins : step; }

  int64_t bytes_of(ValueId v) { return aligned(local().values[v].count() * size_bytes(local().values[v].type.dtype)); }

  bool in_memory(ValueId v) {
    const ScheduledStep& s = out_.steps[made_[v]];
    const bool passes_on = s.step.kind == LaunchStep::Kind::kernel || s.step.kind == LaunchStep::Kind::attention ||
                           (s.step.epilogue && s.step.epilogue->result != v);
    return !passes_on || last_[v] >= 0;
  }

  const SpmdProgram& program_;
  const std::vector<int>& bucket_of_;  ///< by instruction
  const Cluster& cluster_;
  ElementTypes types_;
  const int64_t most_under_way_bytes_;
  std::vector<FusedAttention> attention_;
  std::vector<std::optional<AttentionCall>> calls_;  ///< as attention_; empty: none
  DeviceSchedule out_;
  std::map<int, int> waited_;    ///< by collective step: the step before which compute waits for it
  std::vector<int> made_;        ///< by value: the step that computes it, -1: none
  std::vector<int> last_;        ///< by value: the last step that needs its storage
  std::vector<int> sent_until_;  ///< by value: the step before which compute waits for the last transfer that reads it
};

}  // namespace

DeviceSchedule schedule(const Program& reference, const BucketedProgram& program, const Cluster& cluster, int rank,
                        const ElementTypes& types) {
  const auto with = [&](int64_t most_under_way_bytes) {
    return Scheduler(reference, program, cluster, rank, types, most_under_way_bytes).run();
  };
  // Transfers run one after the other: a longer queue of them gains no time, it only keeps what they read.
  const int64_t limit = cluster.devices.at(size_t(rank)).memory_bytes;
  if (limit == 0) return with(std::numeric_limits<int64_t>::max());  // nobody knows
  int64_t bytes = std::max<int64_t>(limit / 64, 1);
  DeviceSchedule best = with(bytes);
  while (bytes > 0 && best.lowered.memory.arena_bytes > limit) {
    bytes = bytes > 1 << 20 ? bytes / 8 : 0;
    DeviceSchedule next = with(bytes);
    if (next.lowered.memory.arena_bytes < best.lowered.memory.arena_bytes) best = std::move(next);
  }
  return best;
}

}  // namespace hetsynth::codegen::cuda
