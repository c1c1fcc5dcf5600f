#include "codegen/cuda/plan/unit_order.h"

#include <algorithm>
#include <optional>

namespace hetsynth::codegen::cuda {
namespace {

/// One attempt with these nests (empty ones are not wanted).
class Order {
 public:
  Order(const LocalProgram& program, const Layouts& layouts, const std::vector<std::set<int>>& nests,
        const std::vector<int>& buckets)
      : program_(program), layouts_(layouts), nests_(nests), buckets_(buckets), nest_of_(program.ops.size(), -1) {
    for (size_t n = 0; n < nests.size(); ++n)
      for (int op : nests[n]) nest_of_[size_t(op)] = int(n);
    made_by_.assign(program.values.size(), -1);
    for (size_t i = 0; i < program.ops.size(); ++i) made_by_[size_t(program.ops[i].result)] = int(i);
    placed_.assign(program.ops.size(), false);
    waits_for_copies_ = std::any_of(buckets.begin(), buckets.end(), [](int bucket) { return bucket >= 0; });
  }

  /// False: `stuck` is a nest that cannot be formed.
  bool run(int& stuck) {
    for (size_t i = 0; i < program_.ops.size(); ++i) {
      const int nest = nest_of_[i];
      if (nest < 0) {
        if (placed_[i]) continue;
        if (!try_place(int(i)))
          later_.push_back(int(i));
        else if (waits_for_copies_)
          catch_up();
        continue;
      }
      if (int(i) != *nests_[size_t(nest)].rbegin()) continue;
      for (int op : nests_[size_t(nest)])
        if (!ready(op, nest)) return stuck = nest, false;
      for (int op : nests_[size_t(nest)]) placed_[size_t(op)] = true;
      units_.push_back({{}, nest});
      catch_up();
    }
    return true;
  }

  std::vector<Unit> take() { return std::move(units_); }

 private:
  /// Whether everything an operator reads is there; operators of its own nest come with it.
  bool ready(int op, int nest) const {
    for (const Operand& operand : program_.ops[size_t(op)].inputs)
      for (ValueId value : {operand.value, layouts_.of[size_t(operand.value)].buffer}) {
        const int maker = made_by_[size_t(value)];
        if (maker >= 0 && !placed_[size_t(maker)] && (nest < 0 || nest_of_[size_t(maker)] != nest)) return false;
      }
    return true;
  }

  bool collective(int op) const { return program_.ops[size_t(op)].collective.has_value(); }

  /// The operator and, after it, the others of its bucket: between them stand copies that collectives read at most.
  std::vector<int> together(int op) const {
    std::vector<int> out = {op};
    if (buckets_.empty() || buckets_[size_t(op)] < 0) return out;
    for (size_t next = size_t(op) + 1; next < buckets_.size(); ++next)
      if (buckets_[next] == buckets_[size_t(op)]) out.push_back(int(next));
    return out;
  }

  bool try_place(int op) {
    std::vector<int> ops = together(op);
    if (!std::all_of(ops.begin(), ops.end(), [&](int each) { return ready(each, -1); })) return false;
    if (collective(op) &&
        std::any_of(later_.begin(), later_.end(), [&](int other) { return other < op && collective(other); }))
      return false;
    for (int each : ops) placed_[size_t(each)] = true;
    units_.push_back({std::move(ops), -1});
    return true;
  }

  /// Places what waited, in the program's order.
  void catch_up() {
    if (later_.empty()) return;
    std::vector<int> waiting = std::move(later_);
    later_.clear();
    for (int op : waiting)
      if (!placed_[size_t(op)] && !try_place(op)) later_.push_back(op);
  }

  const LocalProgram& program_;
  const Layouts& layouts_;
  const std::vector<std::set<int>>& nests_;
  const std::vector<int>& buckets_;
  std::vector<int> nest_of_, made_by_, later_;
  std::vector<bool> placed_;
  bool waits_for_copies_ = false;  ///< the first of a bucket may come before a copy that another of it reads
  std::vector<Unit> units_;
};

}  // namespace

std::vector<Unit> order_units(const LocalProgram& program, const Layouts& layouts,
                              const std::vector<std::set<int>>& nests, const std::vector<int>& buckets) {
  std::vector<std::set<int>> wanted = nests;
  for (;;) {
    Order order(program, layouts, wanted, buckets);
    int stuck = -1;
    if (order.run(stuck)) return order.take();
    wanted[size_t(stuck)].clear();
  }
}

}  // namespace hetsynth::codegen::cuda
