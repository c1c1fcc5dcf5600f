#include "codegen/cpu/row_plan.h"

#include <algorithm>

namespace hetsynth::codegen {
namespace {

/// A reduction of neighbouring elements that already lie somewhere.
bool sums_directly(const Kernel& kernel, const KernelMember& m) {
  if (!reduces_row(m) || m.op->one_hot || m.op->body.kind() != ExprKind::input) return false;
  const KernelRead& read = m.reads[0];
  if (read.source >= 0) {
    const KernelMember& source = kernel.members[read.source];
    return source.role == Role::element && source.dtype == DType::f32;
  }
  return read.address.affine() && read.address.coefficients[kernel.inner()] == 1 && read.guards.empty() &&
         !read.always_zero && kernel.parameters[read.parameter].dtype == DType::f32;
}

Travel travel_of(const Kernel& kernel, int m) {
  const KernelMember& member = kernel.members[m];
  Travel travel;
  bool later = false, picked = false;
  for (const KernelMember& reader : kernel.members)
    for (const KernelRead& read : reader.reads) {
      if (read.source != m) continue;
      bool across = member.role == Role::element && (reader.level > member.level || sums_directly(kernel, reader));
      picked = picked || read.picks;
      later = later || across;
      travel.local = travel.local || (!across && !read.picks);
    }
  bool neighbouring = member.stored >= 0 && member.store.affine() && !kernel.loops.empty() &&
                      member.store.coefficients[kernel.inner()] == 1;
  travel.reloaded = later && !picked && neighbouring;
  travel.buffered = picked || (later && !neighbouring);
  travel.terms = reduces_row(member) && !sums_directly(kernel, member);
  return travel;
}

int64_t largest_stride(const Kernel& kernel) {
  int64_t largest = 1;
  auto look = [&](const Address& a) { largest = std::max(largest, std::abs(a.coefficients[kernel.inner()])); };
  for (const KernelMember& m : kernel.members) {
    look(m.store);
    if (m.random_index) look(*m.random_index);
    for (const KernelRead& read : m.reads) look(read.address);
  }
  return largest;
}

}  // namespace

bool scatters(const KernelMember& m) { return m.op->one_hot && !m.op->factors[m.op->looked_up()].reduced(); }

bool reduces_row(const KernelMember& m) {
  return !scatters(m) &&
         (m.role == Role::row_reduce || (m.role == Role::accumulate && m.over_inner && m.reduces_inner));
}

bool runs_in_pass(const KernelMember& m) {
  return m.role == Role::element || m.role == Role::row_reduce || m.over_inner;
}

bool lookup_varies(const Kernel& kernel, const KernelMember& m) {
  const KernelRead& read = m.reads[m.op->one_hot->operand];
  if (read.source >= 0) return kernel.members[read.source].role == Role::element;
  const Address& a = read.address;
  return a.coefficients[kernel.inner()] != 0 ||
         std::any_of(a.others.begin(), a.others.end(),
                     [&](const Address::Term& t) { return t.counter == kernel.inner(); });
}

RowPlan plan_row(const Kernel& kernel) {
  RowPlan plan;
  plan.single = kernel.loops.empty();
  for (size_t m = 0; m < kernel.members.size(); ++m) plan.travel.push_back(travel_of(kernel, int(m)));
  if (plan.single) return plan;
  bool buffers =
      std::any_of(plan.travel.begin(), plan.travel.end(), [](const Travel& t) { return t.terms || t.buffered; });
  bool rows_after = std::any_of(kernel.members.begin(), kernel.members.end(),
                                [](const KernelMember& m) { return m.role == Role::row && m.level >= 0; });
  int64_t row = kernel.loops.back().extent();
  plan.chunked = buffers && !rows_after && kernel.passes == 1 && row > chunk_elements;
  plan.long_counter = row >= (int64_t(1) << 31) / largest_stride(kernel);
  return plan;
}

}  // namespace hetsynth::codegen
