// Prints what single members of a kernel read and compute.
#pragma once
#include <string>
#include <vector>

#include "codegen/cpu/kernel_text.h"
#include "codegen/cpu/row_plan.h"
#include "codegen/text/expression.h"

namespace hetsynth::codegen {

/// Members are named by number. The arguments must outlive this.
class MemberText {
 public:
  MemberText(const Kernel& kernel, const KernelNames& names, const RowPlan& plan)
      : k_(kernel), n_(names), plan_(plan) {}

  /// The member's value at a point of the nest, lookups guarded. What it needs more than once is declared in lines
  /// appended to `before`.
  std::string value_expression(int m, std::vector<std::string>& before) const;
  /// An expression over the member's inputs.
  std::string expression(int m, const Expr& body, std::vector<std::string>* before = nullptr) const;
  /// "const long e_at_ = tokens[i] - 4;".
  std::string lookup(int m) const;
  /// Whether the looked-up position is among those this rank holds.
  std::string lookup_inside(int m) const;
  /// "h[t * 384 + c]".
  std::string element(int parameter, const Address& address, int m) const;
  /// Where the result goes.
  std::string target(int m) const { return element(k_.members[m].stored, k_.members[m].store, m); }
  /// The beginning of the row that an address walks through.
  std::string row_pointer(int parameter, Address address) const;
  std::string variable(int m) const { return n_.members[m] + "_"; }
  std::string buffer(int m) const { return n_.members[m] + (plan_.travel[m].terms ? "_terms_" : "_row_"); }
  /// "h_row_[c]".
  std::string buffered(int m) const;

 private:
  /// "h_tanh_": a variable of member m that no other value of the kernel is called, and that `before` does not declare.
  std::string part_name(int m, const std::string& word, const std::vector<std::string>& before) const;
  std::string lookup_name(int m) const { return n_.members[m] + "_at_"; }
  std::vector<std::string> counters(int m) const;
  std::string factor(int m, int f) const;
  Printed input(int m, int j) const;
  Printed from_member(int m, const KernelRead& read) const;

  const Kernel& k_;
  const KernelNames& n_;
  const RowPlan& plan_;
};

}  // namespace hetsynth::codegen
