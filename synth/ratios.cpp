#include "synth/ratios.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>
#include <unordered_map>

#include "dsl/base/error.h"
#include "synth/interner.h"
#include "synth/linear_program.h"
#include "synth/schedule.h"

namespace hetsynth::synth {
namespace {

/// Share of a memory that the linear program may fill: rounding to whole granules takes some more.
constexpr double memory_fill = 0.97;
constexpr int max_memory_rounds = 40;

double term_seconds(const Problem& problem, const CostTerm& term, const Shares& shares) {
  if (!term.is_operator) return to_seconds(problem.cost.conversion(term.node, term.from, term.to, shares).cost);
  double slowest = 0;
  for (int d = 0; d < problem.cost.device_count(); ++d)
    slowest = std::max(slowest, problem.cost.device_seconds(term.work, shares, d));
  return slowest;
}

std::vector<int> classes_of(const Problem& problem, const CostTerm& term) {
  std::vector<int> out;
  if (term.is_operator) return term.work.class_id[0] >= 0 ? std::vector<int>{term.work.class_id[0]} : out;
  for (const Form& form : {term.from, term.to})
    if (form.on[0].sharded()) out.push_back(problem.classes.dims[term.node][form.on[0].dim]);
  return out;
}

/// The linear program of one fixed program: a variable per class and device type, and one per maximum.
class RatioProgram {
 public:
  RatioProgram(const Problem& problem, const DeviceTypes& types, const std::vector<CostTerm>& terms)
      : problem_(problem), types_(types) {
    for (size_t c = 0; c < problem.classes.classes.size(); ++c) {
      std::vector<std::pair<int, double>> total;
      share_.emplace_back();
      for (const auto& devices : types.devices) {
        share_.back().push_back(lp_.add_variable(0, 1, 0));
        total.push_back({share_.back().back(), double(devices.size())});
      }
      lp_.add_row(1, 1, total);
    }
    for (const CostTerm& term : terms) {
      if (term.is_operator)
        add_operator(term);
      else
        add_conversion(term);
    }
  }

  void limit_memory(int type, const MemoryPoint& point, double limit) {
    std::vector<std::pair<int, double>> entries;
    double fixed = 0;
    for (const auto& [cuts, bytes] : point.by_cuts)
      if (cuts[0] < 0)
        fixed += bytes;
      else
        entries.push_back({share_[cuts[0]][type], bytes / limit});
    lp_.add_row(-HUGE_VAL, 1 - fixed / limit, entries);
  }

  /// [class][type]; empty if infeasible.
  std::vector<std::vector<double>> solve() const {
    auto solution = lp_.solve();
    std::vector<std::vector<double>> out;
    if (!solution) return out;
    for (const auto& row : share_) {
      out.emplace_back();
      for (int variable : row) out.back().push_back(std::max(0.0, (*solution)[variable]));
    }
    return out;
  }

 private:
  const Device& example(size_t type) const { return problem_.cluster.devices[types_.devices[type][0]]; }

  /// Seconds are scaled to microseconds to stay near 1.
  int maximum(double count) { return lp_.add_variable(0, HUGE_VAL, count); }
  /// maximum >= fixed + slope * variable
  void above(int maximum, double fixed, double slope, int variable) {
    lp_.add_row(fixed * 1e6, HUGE_VAL, {{maximum, 1}, {variable, -slope * 1e6}});
  }

  void add_operator(const CostTerm& term) {
    const Work& w = term.work;
    int z = maximum(term.count * w.turns);
    for (size_t t = 0; t < types_.devices.size(); ++t) {
      ComputeSpeed speed = problem_.cost.speed(w, types_.devices[t][0]);
      double flops = speed.flops_per_second, memory = example(t).memory_bytes_per_second();
      int share = share_[w.class_id[0]][t];
      if (w.flops[1] > 0) above(z, speed.call_seconds + w.flops[0] / flops, w.flops[1] / flops, share);
      if (w.bytes[1] > 0) above(z, speed.call_seconds + w.bytes[0] / memory, w.bytes[1] / memory, share);
    }
  }

  void add_conversion(const CostTerm& term) {
    double bytes = double(problem_.cost.bytes(term.node)), n = problem_.cost.device_count();
    const AxisForm &from = term.from.on[0], &to = term.to.on[0];
    if (from.sharded() && to.sharded()) return add_all_to_all(term, bytes);
    int c = problem_.classes.dims[term.node][from.sharded() ? from.dim : to.dim];
    if (term.realisation == Realisation::hierarchical) return add_hierarchical(term, bytes, c);
    int z = maximum(term.count * moved_times(problem_.program, term.node));
    for (size_t t = 0; t < types_.devices.size(); ++t) {
      double bandwidth = problem_.cost.link(0, 0).bandwidth_bytes_per_second;
      int share = share_[c][t];
      if (from.kind == AxisForm::Kind::replicated)
        above(z, 0, 2 * bytes / example(t).memory_bytes_per_second(), share);
      else if (term.realisation == Realisation::padded)
        above(z, 0, (n - 1) * bytes / bandwidth, share);
      else
        above(z, bytes / bandwidth, -bytes / bandwidth, share);
    }
  }

  /// What depends on the shares: the fullest host gathers or scatters, and what the emptiest lacks goes between hosts.
  void add_hierarchical(const CostTerm& term, double bytes, int class_id) {
    const double count = term.count * moved_times(problem_.program, term.node);
    const int within = maximum(count), between = maximum(count);
    const GroupLevels& levels = problem_.cost.communication().levels(0, 0);
    const double outside = bytes / levels.between.bandwidth_bytes_per_second * 1e6;
    for (const GroupLevels::Host& host : levels.hosts) {
      std::map<int, double> devices;  // by variable of their share
      for (int d : host.devices) ++devices[share_[size_t(class_id)][size_t(types_.type_of[size_t(d)])]];
      std::vector<std::pair<int, double>> inside{{within, 1}}, lacking{{between, 1}};
      for (const auto& [share, number] : devices) {
        inside.push_back({share, -number * bytes / host.inside.bandwidth_bytes_per_second * 1e6});
        lacking.push_back({share, number * outside});
      }
      if (host.devices.size() > 1) lp_.add_row(0, HUGE_VAL, inside);
      if (levels.hosts.size() > 1) lp_.add_row(outside, HUGE_VAL, lacking);
    }
  }

  void add_all_to_all(const CostTerm& term, double bytes) {
    int z = maximum(term.count * moved_times(problem_.program, term.node));
    double n = problem_.cost.device_count(), moved = bytes * (n - 1) / n;
    const Cluster& cluster = problem_.cluster;
    std::vector<int> larger;
    for (size_t t = 0; t < types_.devices.size(); ++t) {
      larger.push_back(lp_.add_variable(0, 1, 0));
      for (int dim : {term.from.on[0].dim, term.to.on[0].dim})
        lp_.add_row(0, HUGE_VAL, {{larger[t], 1}, {share_[problem_.classes.dims[term.node][dim]][t], -1}});
    }
    std::map<int, std::map<int, double>> by_host;  // host -> variable -> seconds
    for (int d = 0; d < problem_.cost.device_count(); ++d) {
      int host = cluster.devices[d].host, variable = larger[types_.type_of[d]];
      by_host[host][variable] += moved / cluster.between.bandwidth_bytes_per_second * 1e6;
      above(z, 0, moved / cluster.hosts[host].inside.bandwidth_bytes_per_second, variable);
    }
    if (by_host.size() < 2) return;
    for (auto& [host, row] : by_host) {
      std::vector<std::pair<int, double>> entries{{z, 1}};
      for (auto [variable, seconds] : row) entries.push_back({variable, -seconds});
      lp_.add_row(0, HUGE_VAL, entries);
    }
  }

  const Problem& problem_;
  const DeviceTypes& types_;
  LinearProgram lp_;
  std::vector<std::vector<int>> share_;
};

double bytes_at(const MemoryPoint& point, const std::vector<std::vector<double>>& shares, int type) {
  double bytes = 0;
  for (const auto& [cuts, whole] : point.by_cuts) bytes += cuts[0] < 0 ? whole : whole * shares[cuts[0]][type];
  return bytes;
}

}  // namespace

std::vector<CostTerm> cost_terms(const Problem& problem, const Conversions& conversions, const Choices& choices) {
  std::vector<CostTerm> terms;
  std::map<Work, size_t> operators;
  std::unordered_map<std::vector<int>, int, SequenceHash> operator_of;  // term; -1: none
  std::map<std::tuple<int, int, int>, size_t> converted;
  std::vector<Materialisation> made = materialise_all(problem, conversions, choices);
  auto operator_term = [&](const Node& node) {
    Work w = problem.cost.work(node.id, problem.rules.options[node.id][choices[node.id]]);
    if (w.class_id[0] < 0) return -1;
    auto [it, fresh] = operators.try_emplace(w, terms.size());
    if (fresh) {
      terms.emplace_back();
      terms.back().work = w;
    }
    return int(it->second);
  };
  for (const Node& node : problem.program.nodes) {
    if (!node.leaf()) {
      auto [it, fresh] = operator_of.try_emplace(
          {problem.cost.work_kind(node.id), problem.rules.options.kind(node.id), choices[node.id]}, -1);
      if (fresh) it->second = operator_term(node);
      if (it->second >= 0) ++terms[size_t(it->second)].count;
    }
    const auto& forms = problem.rules.forms[node.id];
    for (const auto* steps : {&made[node.id].steps, &made[node.id].late_steps})
      for (const auto& [from, to] : *steps) {
        if (!forms[from].sharded() && !forms[to].sharded()) continue;
        auto [it, fresh] = converted.try_emplace({conversions.kind_of(node.id), from, to}, terms.size());
        if (fresh) {
          terms.emplace_back();
          terms.back().is_operator = false;
          terms.back().node = node.id;
          terms.back().from = forms[from];
          terms.back().to = forms[to];
          terms.back().realisation = conversions.of(node.id).edge(from, to).realisation;
        }
        ++terms[it->second].count;
      }
  }
  return terms;
}

DeviceTypes device_types(const Cluster& cluster) {
  DeviceTypes types;
  for (int d = 0; d < int(cluster.devices.size()); ++d) {
    size_t t = 0;
    while (t < types.devices.size() && !cluster.same_type(types.devices[t][0], d)) ++t;
    if (t == types.devices.size()) types.devices.emplace_back();
    types.devices[t].push_back(d);
    types.type_of.push_back(int(t));
  }
  return types;
}

Fractions best_fractions(const Problem& problem, const std::vector<CostTerm>& terms, const SpmdProgram& spmd) {
  DeviceTypes types = device_types(problem.cluster);
  RatioProgram program(problem, types, terms);
  std::vector<MemoryPoint> profile = memory_profile(problem, spmd);
  auto shares = program.solve();
  bool fits = false;
  for (int round = 0; !shares.empty() && !fits && round < max_memory_rounds; ++round) {
    fits = true;
    for (size_t t = 0; t < types.devices.size(); ++t) {
      double limit = double(problem.cluster.devices[types.devices[t][0]].memory_bytes) * memory_fill;
      auto worst = std::max_element(profile.begin(), profile.end(), [&](auto& a, auto& b) {
        return bytes_at(a, shares, int(t)) < bytes_at(b, shares, int(t));
      });
      if (limit <= 0 || bytes_at(*worst, shares, int(t)) <= limit * (1 + 1e-9)) continue;
      program.limit_memory(int(t), *worst, limit);
      fits = false;
    }
    if (!fits) shares = program.solve();
  }
  if (shares.empty() || !fits) return {};
  std::vector<char> matters(problem.classes.classes.size(), 0);
  for (const CostTerm& term : terms)
    for (int c : classes_of(problem, term)) matters[c] = 1;
  for (const MemoryPoint& point : profile)
    for (const auto& [cuts, bytes] : point.by_cuts)
      if (cuts[0] >= 0) matters[cuts[0]] = 1;
  Fractions fractions;
  for (size_t c = 0; c < shares.size(); ++c) {
    fractions.emplace_back();
    for (int type : types.type_of)
      fractions.back().push_back(matters[c] ? shares[c][type] : 1.0 / double(types.type_of.size()));
  }
  return fractions;
}

double evaluate(const Problem& problem, const std::vector<CostTerm>& terms, const Shares& shares) {
  double total = 0;
  for (const CostTerm& term : terms) total += term.count * term_seconds(problem, term, shares);
  return total;
}

Shares round_fractions(const Problem& problem, const std::vector<CostTerm>& terms, const Fractions& fractions) {
  DeviceTypes types = device_types(problem.cluster);
  Shares shares(1);
  for (size_t c = 0; c < fractions.size(); ++c)
    shares[0].push_back(round_shares(problem.classes.classes[c].granules, fractions[c]));
  if (types.devices.size() < 2) return shares;
  for (size_t c = 0; c < shares[0].size(); ++c) {
    std::vector<CostTerm> own;
    for (const CostTerm& term : terms) {
      auto touched = classes_of(problem, term);
      if (std::find(touched.begin(), touched.end(), int(c)) != touched.end()) own.push_back(term);
    }
    if (own.empty()) continue;
    double best = evaluate(problem, own, shares);
    // Less than a granule from the linear program, whose memory limits hold there.
    auto near = [&](size_t c, int device, int change) {
      double exact = fractions[c][device] * double(problem.classes.classes[c].granules);
      return std::abs(double(shares[0][c][device] + change) - exact) < 1;
    };
    auto fullest = [&](const std::vector<int>& devices) {
      return *std::max_element(devices.begin(), devices.end(),
                               [&](int a, int b) { return shares[0][c][a] < shares[0][c][b]; });
    };
    auto emptiest = [&](const std::vector<int>& devices) {
      return *std::min_element(devices.begin(), devices.end(),
                               [&](int a, int b) { return shares[0][c][a] < shares[0][c][b]; });
    };
    for (bool improved = true; improved;) {
      improved = false;
      for (const auto& giving : types.devices)
        for (const auto& taking : types.devices) {
          int from = fullest(giving), to = emptiest(taking);
          if (&giving == &taking || shares[0][c][from] == 0 || !near(c, from, -1) || !near(c, to, 1)) continue;
          --shares[0][c][from], ++shares[0][c][to];
          double moved = evaluate(problem, own, shares);
          if (moved < best * (1 - 1e-12))
            best = moved, improved = true;
          else
            ++shares[0][c][from], --shares[0][c][to];
        }
    }
  }
  return shares;
}

}  // namespace hetsynth::synth
