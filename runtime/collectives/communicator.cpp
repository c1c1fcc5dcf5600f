#include "runtime/collectives/communicator.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>

namespace hetsynth {

std::string_view name(CollectiveKind kind) {
  switch (kind) {
    case CollectiveKind::all_gather:
      return "all_gather";
    case CollectiveKind::all_reduce:
      return "all_reduce";
    case CollectiveKind::reduce_scatter:
      return "reduce_scatter";
    case CollectiveKind::all_to_all:
      return "all_to_all";
    case CollectiveKind::broadcast:
      return "broadcast";
    case CollectiveKind::send:
      return "send";
    case CollectiveKind::halo_exchange:
      return "halo_exchange";
  }
  return "unknown collective";
}

namespace {

std::string_view name(Reduction reduce) {
  switch (reduce) {
    case Reduction::sum:
      return "sum";
    case Reduction::max:
      return "max";
    case Reduction::average:
      return "average";
    case Reduction::min:
      return "min";
    case Reduction::product:
      return "product";
  }
  return "unknown reduction";
}

bool reduces(CollectiveKind kind) {
  return kind == CollectiveKind::all_reduce || kind == CollectiveKind::reduce_scatter;
}

}  // namespace

std::string text(const CollectiveCall& call) {
  std::string out = fmt::format("{} of instruction {}, axis {}, ", name(call.kind), call.id, call.axis);
  constexpr std::array types{"f32", "i32", "bf16", "fp16"};
  const char* type = types.at(static_cast<size_t>(call.type));
  switch (call.kind) {
    case CollectiveKind::all_gather:
    case CollectiveKind::reduce_scatter:
    case CollectiveKind::halo_exchange:
      out += fmt::format("{}[{},{{{}}},{}]", type, call.outer, fmt::join(call.bounds, ","), call.inner);
      break;
    case CollectiveKind::all_reduce:
    case CollectiveKind::broadcast:
    case CollectiveKind::send:
      out += fmt::format("{} {}", call.count, type);
      break;
    case CollectiveKind::all_to_all:
      out += fmt::format("{}[{},{},{},{},{}] from {} {{{}}} to {{{}}}", type, call.outer, call.first, call.middle,
                         call.second, call.inner, call.from_first ? "first" : "second", fmt::join(call.bounds, ","),
                         fmt::join(call.bounds_to, ","));
      break;
  }
  if (call.kind == CollectiveKind::halo_exchange)
    out += fmt::format(", with {} before and {} after", call.before, call.after);
  if (reduces(call.kind)) out += fmt::format(", {}", name(call.reduce));
  if (call.kind == CollectiveKind::broadcast) out += fmt::format(", from {}", call.root);
  if (!call.hosts.empty()) out += fmt::format(", by hosts {{{}}}", fmt::join(call.hosts, ","));
  if (call.kind == CollectiveKind::send) out += fmt::format(", from {} to {}", call.root, call.to);
  return out;
}

Range held_with_halo(const CollectiveCall& call, int member) {
  const Range own{call.bounds[static_cast<size_t>(member)], call.bounds[static_cast<size_t>(member) + 1]};
  return with_halo(own, call.before, call.after, call.bounds.back());
}

bool reduces_among_leaders(const CollectiveCall& call) {
  return call.kind == CollectiveKind::all_reduce && call.reduce != Reduction::average && call.hosts.empty();
}

std::vector<int> leaders_of(const std::vector<int>& members, const std::vector<bool>& on_gpu) {
  const auto gpu = [&](int rank) { return !on_gpu.empty() && on_gpu[static_cast<size_t>(rank)]; };
  if (std::ranges::all_of(members, gpu)) return members;
  std::vector<int> out;
  bool seen = false;
  for (const int rank : members) {
    if (!gpu(rank) || !seen) out.push_back(rank);
    seen = seen || gpu(rank);
  }
  return out;
}

std::string text(std::span<const CollectiveCall> calls) {
  if (calls.size() == 1) return text(calls[0]);
  return fmt::format("{} and {} more up to instruction {}", text(calls[0]), calls.size() - 1, calls.back().id);
}

bool same_call(const CollectiveCall& a, const CollectiveCall& b) {
  return a.kind == b.kind && a.id == b.id && a.axis == b.axis && a.type == b.type && a.reduce == b.reduce &&
         a.root == b.root && a.to == b.to && a.from_first == b.from_first && a.count == b.count && a.outer == b.outer &&
         a.first == b.first && a.middle == b.middle && a.second == b.second && a.inner == b.inner &&
         a.before == b.before && a.after == b.after && std::ranges::equal(a.hosts, b.hosts) &&
         std::ranges::equal(a.bounds, b.bounds) && std::ranges::equal(a.bounds_to, b.bounds_to);
}

}  // namespace hetsynth
