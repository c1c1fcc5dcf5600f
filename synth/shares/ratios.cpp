#include "synth/shares/ratios.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <tuple>
#include <unordered_map>

#include "dsl/base/error.h"
#include "synth/model/distinct_devices.h"
#include "synth/schedule/memory_budget.h"
#include "synth/schedule/schedule.h"
#include "synth/shares/ratio_program.h"
#include "synth/support/interner.h"
#include "synth/support/parameters.h"

namespace hetsynth::synth {
namespace {

double term_seconds(const Problem& problem, const CostTerm& term, const Shares& shares,
                    const DistinctDevices& devices) {
  if (!term.is_operator) return to_seconds(problem.cost.conversion(term.node, term.from, term.to, shares).cost);
  double slowest = 0;
  for (int d : devices.of(term.work)) slowest = std::max(slowest, problem.cost.device_seconds(term.work, shares, d));
  return slowest;
}

/// That cut the term along the axis.
std::vector<int> classes_of(const Problem& problem, const CostTerm& term, int axis) {
  const auto a = size_t(axis);
  std::vector<int> out;
  if (const int class_id = class_of(term.work.class_id[a]); term.is_operator)
    return class_id >= 0 ? std::vector<int>{class_id} : out;
  for (const Form& form : {term.from, term.to})
    if (form.on[a].sharded()) out.push_back(problem.classes.dims[term.node][size_t(form.on[a].dim)]);
  return out;
}

/// Where a device that holds these parts is fullest, and its bytes there.
std::pair<size_t, double> fullest_point(const MemoryProfile& profile, const std::vector<double>& parts) {
  std::pair<size_t, double> out{0, -1};
  for (size_t point = 0; point < profile.nodes.size(); ++point) {
    const double bytes = std::inner_product(parts.begin(), parts.end(), profile.at(point).begin(), 0.0);
    if (bytes > out.second) out = {point, bytes};
  }
  return out;
}

}  // namespace

std::vector<CostTerm> cost_terms(const Problem& problem, const Conversions& conversions, const Choices& choices) {
  std::vector<CostTerm> terms;
  std::map<Work, int> operators;
  std::unordered_map<std::vector<int>, int, SequenceHash> operator_of;  // a term, or -1: none
  std::map<std::tuple<int, int, int>, size_t> converted;
  Materialiser materialiser(problem, conversions);
  const std::vector<const Materialisation*> all = materialiser.all(choices);
  const auto operator_term = [&](const Node& node) {
    const Work w = problem.cost.work(node.id, problem.rules.option(node.id, choices[node.id]));
    if (std::ranges::all_of(w.class_id, [](CutClass cut) { return cut == -1; })) return -1;
    auto [it, fresh] = operators.try_emplace(w, int(terms.size()));
    if (fresh) {
      terms.emplace_back();
      terms.back().work = w;
    }
    return it->second;
  };
  std::vector<int> key;
  for (const Node& node : problem.program.nodes) {
    if (!node.leaf()) {
      key.assign({problem.cost.work_kind(node.id), problem.rules.options.kind(node.id), choices[node.id]});
      auto [it, fresh] = operator_of.try_emplace(key);
      if (fresh) it->second = operator_term(node);
      if (it->second >= 0) ++terms[size_t(it->second)].count;
    }
    const auto& forms = problem.rules.forms[node.id];
    const Materialisation& made = *all[size_t(node.id)];
    for (const auto* steps : {&made.steps, &made.late_steps})
      for (const auto& [from, to] : *steps) {
        if (!forms[from].sharded() && !forms[to].sharded()) continue;
        auto [it, fresh] = converted.try_emplace({conversions.kind_of(node.id), from, to}, terms.size());
        if (fresh) {
          terms.emplace_back();
          terms.back().is_operator = false;
          terms.back().node = node.id;
          terms.back().from = forms[from];
          terms.back().to = forms[to];
          terms.back().opcode = conversions.of(node.id).edge(from, to).opcode;
          terms.back().realisation = conversions.of(node.id).edge(from, to).realisation;
        }
        ++terms[it->second].count;
      }
  }
  return terms;
}

DeviceTypes coordinate_types(const Problem& problem, int axis) {
  std::vector<std::vector<int>> at(size_t(problem.mesh.axes[size_t(axis)].size));  // devices by coordinate, in order
  for (int d = 0; d < problem.cost.device_count(); ++d) at[size_t(problem.cost.coordinate(d, axis))].push_back(d);
  DeviceTypes types;
  for (int c = 0; c < int(at.size()); ++c) {
    const auto known = std::ranges::find_if(types.devices, [&](const std::vector<int>& coordinates) {
      return std::ranges::equal(at[size_t(c)], at[size_t(coordinates[0])],
                                [&](int x, int y) { return alike(problem.cluster, x, y); });
    });
    types.type_of.push_back(int(known - types.devices.begin()));
    if (known == types.devices.end())
      types.devices.push_back({c});
    else
      known->push_back(c);
  }
  return types;
}

namespace {

/// As the one below, with these types and shares `kept`: see RatioProgram.
Fractions best_fractions(const Problem& problem, const std::vector<CostTerm>& terms, const SpmdProgram& spmd, int axis,
                         const Shares& others, const MemoryLimits& limits, const DeviceTypes& types,
                         const std::vector<char>& kept) {
  RatioProgram program(problem, axis, others, types, terms, kept);
  const MemoryProfile profile = memory_profile(problem, spmd);
  std::vector<double> prices;
  auto shares = program.solve(&prices);
  std::map<std::pair<int, size_t>, int> limited;  // rows by devices and points
  bool more = true;
  for (int round = 0; !shares.empty() && more && round < most_memory_rounds; ++round) {
    more = false;
    for (int d : program.examples()) {
      const double limit = double(memory_budget(problem, size_t(d))) * memory_fill * limits.part;
      if (limit <= 0) continue;
      const std::vector<double> parts = program.parts(profile.cuts, shares, d);
      const auto [worst, bytes] = fullest_point(profile, parts);
      if (bytes <= limit * (1 + 1e-9) || limited.contains({d, worst})) continue;
      limited[{d, worst}] = program.limit_memory(d, profile, worst, limit, limits.seconds_over);
      more = true;
    }
    if (more) shares = program.solve(&prices);
  }
  if (shares.empty() || (more && std::isinf(limits.seconds_over))) return {};
  for (const auto& [where, row] : limited)
    if (const double seconds = prices[size_t(row)] / RatioProgram::scale; limits.met && seconds > 0)
      limits.met->push_back({where.first, profile.nodes[where.second], seconds});
  std::vector<char> matters = kept;
  matters.resize(problem.classes.classes.size(), 0);
  for (const CostTerm& term : terms)
    for (int c : classes_of(problem, term, axis)) matters[size_t(c)] = 1;
  for (const Cuts& cuts : profile.cuts)
    if (const int class_id = class_of(cuts[size_t(axis)]); class_id >= 0) matters[size_t(class_id)] = 1;
  Fractions fractions;
  for (size_t c = 0; c < shares.size(); ++c) {
    fractions.emplace_back();
    for (int type : types.type_of)
      fractions.back().push_back(matters[c] ? shares[c][size_t(type)] : 1.0 / double(types.type_of.size()));
  }
  return fractions;
}

/// As the one below, with these types.
Shares round_fractions(const Problem& problem, const std::vector<CostTerm>& terms, const Fractions& fractions, int axis,
                       Shares shares, const DeviceTypes& types) {
  shares.resize(problem.mesh.axes.size());
  auto& along = shares[size_t(axis)];
  along.clear();
  for (size_t c = 0; c < fractions.size(); ++c)
    along.push_back(round_shares(problem.classes.classes[c].granules, fractions[c]));
  if (types.devices.size() < 2) return shares;
  std::vector<std::vector<CostTerm>> by_class(along.size());
  for (const CostTerm& term : terms) {
    const std::vector<int> touched = classes_of(problem, term, axis);
    for (size_t i = 0; i < touched.size(); ++i)
      if (std::find(touched.begin(), touched.begin() + ptrdiff_t(i), touched[i]) == touched.begin() + ptrdiff_t(i))
        by_class[size_t(touched[i])].push_back(term);
  }
  for (size_t c = 0; c < along.size(); ++c) {
    const std::vector<CostTerm>& own = by_class[c];
    if (own.empty()) continue;
    double best = evaluate(problem, own, shares);
    // Less than a granule from the linear program, whose memory limits hold there.
    auto near = [&](size_t c, int coordinate, int change) {
      double exact = fractions[c][coordinate] * double(problem.classes.classes[c].granules);
      return std::abs(double(along[c][coordinate] + change) - exact) < 1;
    };
    auto fullest = [&](const std::vector<int>& coordinates) {
      return *std::max_element(coordinates.begin(), coordinates.end(),
                               [&](int a, int b) { return along[c][a] < along[c][b]; });
    };
    auto emptiest = [&](const std::vector<int>& coordinates) {
      return *std::min_element(coordinates.begin(), coordinates.end(),
                               [&](int a, int b) { return along[c][a] < along[c][b]; });
    };
    for (bool improved = true; improved;) {
      improved = false;
      for (const auto& giving : types.devices)
        for (const auto& taking : types.devices) {
          int from = fullest(giving), to = emptiest(taking);
          if (&giving == &taking || along[c][from] == 0 || !near(c, from, -1) || !near(c, to, 1)) continue;
          --along[c][from], ++along[c][to];
          double moved = evaluate(problem, own, shares);
          if (moved < best * (1 - 1e-12))
            best = moved, improved = true;
          else
            ++along[c][from], --along[c][to];
        }
    }
  }
  return shares;
}

/// By class: it has few granules for so many coordinates.
std::vector<char> coarse_classes(const Problem& problem, int axis) {
  const double coordinates = problem.mesh.axes[size_t(axis)].size;
  std::vector<char> out;
  for (const DimensionClass& c : problem.classes.classes)
    out.push_back(double(c.granules) < few_granules * coordinates);
  return out;
}

/// As coordinate_types, where those alike have as much of the classes that are `kept` as well.
DeviceTypes types_beside(const Problem& problem, int axis, const Shares& shares, const std::vector<char>& kept) {
  const DeviceTypes types = coordinate_types(problem, axis);
  std::map<std::vector<int64_t>, size_t> known;
  DeviceTypes out;
  for (size_t c = 0; c < types.type_of.size(); ++c) {
    std::vector<int64_t> key{types.type_of[c]};
    for (size_t k = 0; k < kept.size(); ++k)
      if (kept[k]) key.push_back(shares[size_t(axis)][k][c]);
    const auto [it, fresh] = known.try_emplace(std::move(key), out.devices.size());
    if (fresh) out.devices.emplace_back();
    out.devices[it->second].push_back(int(c));
    out.type_of.push_back(int(it->second));
  }
  return out;
}

}  // namespace

Fractions best_fractions(const Problem& problem, const std::vector<CostTerm>& terms, const SpmdProgram& spmd, int axis,
                         const Shares& others, const MemoryLimits& limits) {
  return best_fractions(problem, terms, spmd, axis, others, limits, coordinate_types(problem, axis), {});
}

double evaluate(const Problem& problem, const std::vector<CostTerm>& terms, const Shares& shares) {
  const DistinctDevices devices(problem.cost, shares);
  double total = 0;
  for (const CostTerm& term : terms) total += term.count * term_seconds(problem, term, shares, devices);
  return total;
}

Shares round_fractions(const Problem& problem, const std::vector<CostTerm>& terms, const Fractions& fractions, int axis,
                       Shares shares) {
  return round_fractions(problem, terms, fractions, axis, std::move(shares), coordinate_types(problem, axis));
}

bool refine_shares(const Problem& problem, const std::vector<CostTerm>& terms, const SpmdProgram& spmd,
                   const std::vector<int>& axes, Shares* shares, const MemoryLimits& limits) {
  for (int axis : axes) {
    const Fractions fractions = best_fractions(problem, terms, spmd, axis, *shares, limits);
    if (fractions.empty()) return false;
    *shares = round_fractions(problem, terms, fractions, axis, *shares);
  }
  return true;
}

bool refine_fine_shares(const Problem& problem, const std::vector<CostTerm>& terms, const SpmdProgram& spmd,
                        const std::vector<int>& axes, Shares* shares) {
  const Shares before = *shares;
  for (int axis : axes) {
    const std::vector<char> coarse = coarse_classes(problem, axis);
    if (problem.mesh.axes[size_t(axis)].size < 2 || std::ranges::find(coarse, 1) == coarse.end()) continue;
    const DeviceTypes types = types_beside(problem, axis, *shares, coarse);
    const Fractions fractions = best_fractions(problem, terms, spmd, axis, *shares, {}, types, coarse);
    if (fractions.empty()) return false;
    *shares = round_fractions(problem, terms, fractions, axis, *shares, types);
  }
  return *shares != before;
}

}  // namespace hetsynth::synth
