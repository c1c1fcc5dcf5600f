#include "codegen/cuda/unit_order.h"

#include <algorithm>
#include <optional>

namespace hetsynth::codegen::cuda {
namespace {

/// One attempt with these nests (empty ones are not wanted).
class Order {
 public:
  Order(const LocalProgram& program, const Layouts& layouts, const std::vector<std::set<int>>& nests)
      : program_(program), layouts_(layouts), nests_(nests), nest_of_(program.ops.size(), -1) {
    for (size_t n = 0; n < nests.size(); ++n)
      for (int op : nests[n]) nest_of_[size_t(op)] = int(n);
    made_by_.assign(program.values.size(), -1);
    for (size_t i = 0; i < program.ops.size(); ++i) made_by_[size_t(program.ops[i].result)] = int(i);
    placed_.assign(program.ops.size(), false);
  }

  /// False: `stuck` is a nest that cannot be formed.
  bool run(int& stuck) {
    for (size_t i = 0; i < program_.ops.size(); ++i) {
      const int nest = nest_of_[i];
      if (nest < 0) {
        if (!try_place(int(i))) later_.push_back(int(i));
        continue;
      }
      if (int(i) != *nests_[size_t(nest)].rbegin()) continue;
      for (int op : nests_[size_t(nest)])
        if (!ready(op, nest)) return stuck = nest, false;
      for (int op : nests_[size_t(nest)]) placed_[size_t(op)] = true;
      units_.push_back({-1, nest});
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

  bool try_place(int op) {
    if (!ready(op, -1)) return false;
    if (collective(op) &&
        std::any_of(later_.begin(), later_.end(), [&](int other) { return other < op && collective(other); }))
      return false;
    placed_[size_t(op)] = true;
    units_.push_back({op, -1});
    return true;
  }

  /// Places what waited, in the program's order.
  void catch_up() {
    std::vector<int> waiting = std::move(later_);
    later_.clear();
    for (int op : waiting)
      if (!try_place(op)) later_.push_back(op);
  }

  const LocalProgram& program_;
  const Layouts& layouts_;
  const std::vector<std::set<int>>& nests_;
  std::vector<int> nest_of_, made_by_, later_;
  std::vector<bool> placed_;
  std::vector<Unit> units_;
};

}  // namespace

std::vector<Unit> order_units(const LocalProgram& program, const Layouts& layouts,
                              const std::vector<std::set<int>>& nests) {
  std::vector<std::set<int>> wanted = nests;
  for (;;) {
    Order order(program, layouts, wanted);
    int stuck = -1;
    if (order.run(stuck)) return order.take();
    wanted[size_t(stuck)].clear();
  }
}

}  // namespace hetsynth::codegen::cuda
