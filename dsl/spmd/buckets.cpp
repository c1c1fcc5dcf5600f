#include "dsl/spmd/buckets.h"

#include <fmt/format.h>

#include <algorithm>
#include <climits>
#include <cmath>
#include <deque>
#include <iterator>
#include <map>
#include <optional>

#include "dsl/spmd/loop_schedule.h"
#include "dsl/spmd/told_last.h"

namespace hetsynth {
namespace {

constexpr double latency_times_bandwidth_bytes(DeviceKind kind) {
  return kind == DeviceKind::cuda ? double(1 << 20) : double(1 << 16);
}

class BucketGatherer {
 public:
  BucketGatherer(const Program& reference, const SpmdProgram& program, DeviceKind kind, Beside how)
      : reference_(reference),
        in_(program),
        kind_(kind),
        gathers_ahead_(how == Beside::ahead && kind == DeviceKind::cpu) {}

  BucketedProgram run() {
    find_members();
    for (int i = 0; i < int(in_.instructions.size()); ++i) {
      for (ValueId operand : in_.instructions[size_t(i)].operands) close_if_it_makes(operand);
      if (sorts_[size_t(i)]) add(i);
    }
    while (!open_.empty()) close(open_.begin()->first);
    put_ahead();
    return in_order();
  }

 private:
  using Sort = std::pair<int, int>;  ///< axis, and how its members call
  enum How { sums, hierarchical_all_reduces, hierarchical_reduce_scatters, gathers, gathers_ahead };
  struct Open {
    std::vector<int> members;
    int64_t bytes = 0;
  };
  static constexpr int never = INT_MAX;

  const Node& node_of(ValueId value) const { return reference_[in_.values[size_t(value)].node]; }

  int64_t bytes_of(const Instruction& i) const {
    const TensorType& type = node_of(i.result).type;
    return element_count(type.shape) * size_bytes(type.dtype);
  }

  /// Collectives that add up what the backward pass makes and only the update needs, that gather what the update makes
  /// and nothing reads, and that gather what is there before the step.
  void find_members() {
    std::vector<bool> read(in_.values.size(), false), read_early(in_.values.size(), false);
    std::vector<bool> is_leaf(in_.values.size(), false);
    for (const ValueId leaf : in_.leaves) is_leaf[size_t(leaf)] = true;
    first_read_.assign(in_.values.size(), never);
    for (auto i = in_.instructions.rbegin(); i != in_.instructions.rend(); ++i) {
      for (ValueId operand : i->operands) first_read_[size_t(operand)] = int(in_.instructions.rend() - i) - 1;
      const bool updates = node_of(i->result).phase == Phase::update;
      // Whoever waits for another exchange of what is made of a gradient waits for the gradient.
      const bool early =
          !updates && (communicates(i->opcode) || read_early[size_t(i->result)] || !read[size_t(i->result)]);
      for (ValueId operand : i->operands) {
        read[size_t(operand)] = true;
        if (early) read_early[size_t(operand)] = true;
      }
    }
    sorts_.assign(in_.instructions.size(), std::nullopt);
    for (size_t at = 0; at < in_.instructions.size(); ++at) {
      const Instruction& i = in_.instructions[at];
      const Phase phase = node_of(i.result).phase;
      const bool on_cpu = kind_ == DeviceKind::cpu, levels = i.realisation == Realisation::hierarchical;
      const bool adds = (i.opcode == Opcode::all_reduce || i.opcode == Opcode::reduce_scatter) &&
                        (i.reduce == ReduceOp::sum || i.reduce == ReduceOp::average);
      const bool gradient = adds && phase == Phase::backward && read[size_t(i.result)] && !read_early[size_t(i.result)];
      const bool updated =
          on_cpu && i.opcode == Opcode::all_gather && phase == Phase::update && !read[size_t(i.result)];
      const bool ahead = gathers_ahead_ && i.opcode == Opcode::all_gather && is_leaf[size_t(i.operands[0])] &&
                         first_read_[size_t(i.result)] != never;
      if (!(gradient || updated || ahead) || (on_cpu && levels) || loop_of(reference_, in_, i) >= 0) continue;
      sorts_[at] = ahead ? Sort{i.axis, gathers_ahead} : sort_of(i);
      total_bytes_[total_of(*sorts_[at])] += bytes_of(i);
    }
  }

  /// Sums of all kinds share the bytes that buckets are sized by.
  static Sort total_of(Sort sort) { return {sort.first, std::max(sort.second, int(hierarchical_reduce_scatters))}; }

  /// Hierarchical collectives call in phases, so that those of a bucket must be alike.
  static Sort sort_of(const Instruction& i) {
    if (i.opcode == Opcode::all_gather) return {i.axis, gathers};
    if (i.realisation != Realisation::hierarchical) return {i.axis, sums};
    return {i.axis, i.opcode == Opcode::all_reduce ? hierarchical_all_reduces : hierarchical_reduce_scatters};
  }

  void add(int at) {
    const Instruction& i = in_.instructions[size_t(at)];
    const Sort sort = *sorts_[size_t(at)];
    Open& bucket = open_[sort];
    bucket.members.push_back(at);
    bucket.bytes += bytes_of(i);
    // What is gathered ahead stands before whatever reads it.
    if (sort.second != gathers_ahead) sort_of_[i.result] = sort;
    if (bucket.bytes >= bucket_bytes(total_bytes_[total_of(sort)], kind_)) close(sort);
  }

  void close_if_it_makes(ValueId value) {
    const auto found = sort_of_.find(value);
    if (found != sort_of_.end()) close(found->second);
  }

  void close(Sort sort) {
    const auto found = open_.find(sort);
    if (found == open_.end()) return;
    for (int member : found->second.members) sort_of_.erase(in_.instructions[size_t(member)].result);
    if (sort.second == gathers_ahead)
      ahead_.push_back(std::move(found->second.members));
    else if (found->second.members.size() > 1)
      buckets_.push_back(std::move(found->second.members));
    open_.erase(found);
  }

  int first_read(const std::vector<int>& bucket) const {
    int first = never;
    for (int member : bucket) first = std::min(first, first_read_[size_t(in_.instructions[size_t(member)].result)]);
    return first;
  }

  /// What is there before the step is gathered so far ahead of its first reader that the link always has the next
  /// bucket: as many are under way as may be when the first of them is waited for.
  void put_ahead() {
    std::ranges::sort(ahead_, {}, [&](const auto& bucket) { return std::pair(first_read(bucket), bucket.front()); });
    for (size_t b = 0; b < ahead_.size(); ++b) {
      int before = b < size_t(most_under_way) ? 0 : first_read(ahead_[b + 1 - size_t(most_under_way)]);
      const auto loop_at = [&](int at) { return loop_of(reference_, in_, in_.instructions[size_t(at)]); };
      if (const int loop = loop_at(before); loop >= 0)
        while (before > 0 && loop_at(before - 1) == loop) --before;
      ahead_of_[before].push_back(int(buckets_.size() + b));
    }
    std::ranges::move(ahead_, std::back_inserter(buckets_));
  }

  BucketedProgram in_order() const {
    std::map<int, int> bucket_at;  // by its last member
    std::vector<int> bucket_of(in_.instructions.size(), -1);
    for (int b = 0; b < int(buckets_.size()); ++b) {
      bucket_at[buckets_[size_t(b)].back()] = b;
      for (int member : buckets_[size_t(b)]) bucket_of[size_t(member)] = b;
    }
    for (const auto& [before, buckets] : ahead_of_)
      for (int b : buckets) bucket_at.erase(buckets_[size_t(b)].back());
    BucketedProgram out{in_, {}};
    out.program.instructions.clear();
    const auto put = [&](const std::vector<int>& members) {
      for (int member : members) {
        out.program.instructions.push_back(in_.instructions[size_t(member)]);
        out.bucket_of.push_back(bucket_of[size_t(member)]);
      }
    };
    for (int i = 0; i < int(in_.instructions.size()); ++i) {
      if (const auto ahead = ahead_of_.find(i); ahead != ahead_of_.end())
        for (int b : ahead->second) put(buckets_[size_t(b)]);
      if (const auto here = bucket_at.find(i); here != bucket_at.end())
        put(buckets_[size_t(here->second)]);
      else if (bucket_of[size_t(i)] < 0)
        put({i});
    }
    return out;
  }

  const Program& reference_;
  const SpmdProgram& in_;
  const DeviceKind kind_;
  const bool gathers_ahead_;
  std::vector<std::optional<Sort>> sorts_;  ///< by instruction: of the buckets that it may go into
  std::vector<int> first_read_;             ///< by value: the first instruction that reads it
  std::map<Sort, int64_t> total_bytes_;     ///< by total_of
  std::map<Sort, Open> open_;
  std::map<ValueId, Sort> sort_of_;  ///< results of open buckets
  std::vector<std::vector<int>> buckets_, ahead_;
  std::map<int, std::vector<int>> ahead_of_;  ///< by instruction: buckets that begin before it, out of their place
};

}  // namespace

int64_t bucket_bytes(int64_t gradient_bytes, DeviceKind kind) {
  return int64_t(std::sqrt(latency_times_bandwidth_bytes(kind) * double(gradient_bytes)));
}

BucketedProgram gather_buckets(const Program& reference, const SpmdProgram& program, DeviceKind kind, Beside how) {
  return BucketGatherer(reference, program, kind, how).run();
}

BucketedProgram without_buckets(const SpmdProgram& program) {
  return {program, std::vector<int>(program.instructions.size(), -1)};
}

BucketedProgram as_planned(const SpmdProgram& program) {
  BucketedProgram out{program, {}};
  for (const Instruction& instruction : program.instructions) out.bucket_of.push_back(instruction.bucket);
  return out;
}

SpmdProgram with_buckets(const Program& reference, const SpmdProgram& program, Beside how) {
  const SpmdProgram ordered = told_last(reference, program);
  BucketedProgram gathered =
      how == Beside::alone ? without_buckets(ordered) : gather_buckets(reference, ordered, DeviceKind::cpu, how);
  SpmdProgram out = std::move(gathered.program);
  int next = 0, last = -1, members = 0;
  const auto may_run_beside = [&](const Instruction& instruction) {
    if (!communicates(instruction.opcode)) return false;
    const int loop = loop_of(reference, out, instruction);
    return loop < 0 || (instruction.opcode == Opcode::send && schedule_of(out, loop));
  };
  for (size_t i = 0; i < out.instructions.size(); ++i) {
    Instruction& instruction = out.instructions[i];
    const int bucket = gathered.bucket_of[i];
    if (may_run_beside(instruction)) {
      const bool joins = bucket >= 0 && bucket == last && members < most_members;
      members = joins ? members + 1 : 1;
      instruction.bucket = joins ? next - 1 : next++;
    }
    last = bucket;
  }
  return out;
}

std::string why_not_in_bucket(const Program& reference, const SpmdProgram& program, bool met) {
  const Instruction& own = program.instructions.back();
  if (own.bucket < 0) return "";
  if (own.opcode != Opcode::send && loop_of(reference, program, own) >= 0)
    return "a collective in a loop is carried out in its place";
  const auto joins = [](const Instruction& i) {
    return (i.opcode == Opcode::all_gather || i.opcode == Opcode::all_reduce || i.opcode == Opcode::reduce_scatter) &&
           i.realisation != Realisation::hierarchical;
  };
  int members = 1;
  for (auto other = program.instructions.rbegin() + 1;
       other != program.instructions.rend() && other->bucket == own.bucket; ++other) {
    if (other->axis != own.axis) return "collectives of one bucket are over one axis";
    if (!joins(own) || !joins(*other))
      return "only all-gathers, all-reduces and reduce-scatters that are not hierarchical share a bucket";
    if (std::ranges::find(own.operands, other->result) != own.operands.end())
      return "a collective reads what another one of its bucket makes";
    if (++members > most_members) return fmt::format("a bucket has at most {} collectives", most_members);
  }
  return met && members == 1 ? "collectives of one bucket stand one behind the other" : "";
}

std::vector<int> waited_for_before(const Program& reference, const SpmdProgram& program) {
  const int end = int(program.instructions.size());
  std::vector<int> out(program.instructions.size(), end);
  std::map<ValueId, int> made_in;                          // results under way: the bucket
  std::deque<std::pair<int, std::vector<int>>> under_way;  // bucket and its instructions
  const auto wait = [&](int bucket, int before) {
    const auto found = std::ranges::find(under_way, bucket, &std::pair<int, std::vector<int>>::first);
    if (found == under_way.end()) return;
    for (const int member : found->second) {
      out[size_t(member)] = before;
      made_in.erase(program.instructions[size_t(member)].result);
    }
    under_way.erase(found);
  };
  for (int i = 0; i < end; ++i) {
    const Instruction& instruction = program.instructions[size_t(i)];
    // What a later member of a bucket needs is waited for before the first one: nothing stands between them.
    const bool joins = instruction.bucket >= 0 && !under_way.empty() && under_way.back().first == instruction.bucket;
    const int before = joins ? under_way.back().second.front() : i;
    for (const ValueId operand : instruction.operands)
      if (const auto made = made_in.find(operand); made != made_in.end()) wait(made->second, before);
    if (!under_way.empty() && !reference.loops.empty() && loop_of(reference, program, instruction) >= 0)
      while (!under_way.empty()) wait(under_way.front().first, i);
    if (instruction.bucket < 0) {
      out[size_t(i)] = i + 1;
      continue;
    }
    if (!joins) {
      while (int(under_way.size()) >= most_under_way) wait(under_way.front().first, i);
      under_way.push_back({instruction.bucket, {}});
    }
    under_way.back().second.push_back(i);
    made_in[instruction.result] = instruction.bucket;
  }
  return out;
}

}  // namespace hetsynth
