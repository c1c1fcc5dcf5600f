#include "synth/shares/ratio_program.h"

#include <algorithm>
#include <cmath>
#include <map>

namespace hetsynth::synth {
RatioProgram::RatioProgram(const Problem& problem, int axis, const Shares& others, const DeviceTypes& types,
                           const std::vector<CostTerm>& terms, const std::vector<char>& kept)
    : problem_(problem), axis_(axis), others_(others), types_(types) {
  find_examples();
  for (size_t c = 0; c < problem.classes.classes.size(); ++c) {
    std::vector<std::pair<int, double>> total;
    const bool fixed = !kept.empty() && kept[c];
    share_.emplace_back();
    for (const auto& coordinates : types.devices) {
      const double part =
          fixed ? double(others[size_t(axis)][c][size_t(coordinates[0])]) / double(problem.classes.classes[c].granules)
                : 0;
      share_.back().push_back(lp_.add_variable(part, fixed ? part : 1, 0));
      total.push_back({share_.back().back(), double(coordinates.size())});
    }
    if (!fixed) lp_.add_row(1, 1, total);
  }
  for (const CostTerm& term : terms) {
    if (term.is_operator)
      add_operator(term);
    else
      add_conversion(term);
  }
}

RatioProgram::TypeShares RatioProgram::solve(std::vector<double>* prices) {
  const auto solution = lp_.solve(prices);
  TypeShares out;
  if (!solution) return out;
  for (const auto& row : share_) {
    out.emplace_back();
    for (int variable : row) out.back().push_back(std::max(0.0, (*solution)[size_t(variable)]));
  }
  return out;
}

std::vector<double> RatioProgram::parts(const std::vector<Cuts>& cuts, const TypeShares& shares, int device) const {
  std::vector<double> out;
  for (const Cuts& by : cuts) {
    const int class_id = class_of(by[size_t(axis_)]);
    out.push_back(beside(by, device) * (class_id < 0 ? 1 : shares[size_t(class_id)][type(device)]));
  }
  return out;
}

int RatioProgram::limit_memory(int device, const MemoryProfile& profile, size_t point, double limit,
                               double seconds_over) {
  std::map<int, double> entries;
  double fixed = 0;
  for (size_t c = 0; c < profile.cuts.size(); ++c) {
    const Cuts& by = profile.cuts[c];
    const double part = profile.at(point)[c] * beside(by, device) / limit;
    if (const int class_id = class_of(by[size_t(axis_)]); class_id < 0)
      fixed += part;
    else if (part > 0)
      entries[share(class_id, device)] += part;
  }
  if (std::isfinite(seconds_over)) entries[lp_.add_variable(0, HUGE_VAL, seconds_over * scale)] = -1;
  lp_.add_row(-HUGE_VAL, 1 - fixed, {entries.begin(), entries.end()});
  return lp_.row_count() - 1;
}

/// The part that a device has on the other axes of what these classes cut there.
double RatioProgram::beside(const Cuts& by, int device) const {
  double part = 1;
  for (int a = 0; a < int(problem_.mesh.axes.size()); ++a)
    if (a != axis_) part *= problem_.cost.part(class_of(by[size_t(a)]), a, others_, device);
  return part;
}

Cuts RatioProgram::cuts(NodeId node, const Form& form) const {
  Cuts out;
  out.fill(-1);
  for (size_t a = 0; a < out.size(); ++a)
    if (form.on[a].sharded()) out[a] = problem_.classes.dims[node][size_t(form.on[a].dim)];
  return out;
}

bool RatioProgram::crosses_hosts(int device) const {
  const auto& devices = problem_.cluster.devices;
  return std::ranges::any_of(problem_.mesh.group(device, axis_),
                             [&](int member) { return devices[size_t(member)].host != devices[size_t(device)].host; });
}

void RatioProgram::find_examples() {
  const DeviceTypes by_device = device_types(problem_.cluster);
  std::set<std::vector<int64_t>> seen;
  for (int d = 0; d < problem_.cost.device_count(); ++d) {
    std::vector<int64_t> key{int64_t(type(d)), by_device.type_of[size_t(d)]};
    for (int a = 0; a < int(problem_.mesh.axes.size()); ++a)
      if (a != axis_)
        for (const auto& of_class : others_[size_t(a)]) key.push_back(of_class[size_t(problem_.cost.coordinate(d, a))]);
    if (seen.insert(std::move(key)).second) examples_.push_back(d);
  }
}

int RatioProgram::maximum(double count) { return lp_.add_variable(0, HUGE_VAL, count); }

/// maximum >= fixed + slope * variable, for all of them: shares are from 0 to 1, where others may never be the
/// greatest.
void RatioProgram::above(int maximum, const std::set<Line>& lines) {
  for (const auto& [variable, fixed, slope] : lines) {
    const auto covers = [&](const Line& other) {
      const auto& [its, at_0, rise] = other;
      return its == variable && at_0 >= fixed && at_0 + rise >= fixed + slope &&
             (at_0 > fixed || at_0 + rise > fixed + slope);
    };
    if (std::ranges::none_of(lines, covers)) above(maximum, fixed, slope, variable);
  }
}

/// maximum >= fixed + slope * variable
void RatioProgram::above(int maximum, double fixed, double slope, int variable) {
  lp_.add_row(fixed * scale, HUGE_VAL, {{maximum, 1}, {variable, -slope * scale}});
}

/// maximum >= the sum of slopes, in the unit of the program's rows, times their variables
void RatioProgram::above(int maximum, const std::map<int, double>& scaled_slopes) {
  std::vector<std::pair<int, double>> row{{maximum, 1}};
  for (const auto& [variable, slope] : scaled_slopes) row.emplace_back(variable, -slope);
  lp_.add_row(0, HUGE_VAL, row);
}

void RatioProgram::add_operator(const CostTerm& term) {
  const Work& w = term.work;
  const int class_id = class_of(w.class_id[size_t(axis_)]);
  if (class_id < 0) return;
  const int z = maximum(term.count * w.turns);
  Work moved = w;  // bytes in the place of operations
  moved.flops = w.bytes;
  std::set<Line> rows;
  for (int d : examples_) {
    Parts without = whole_part;
    for (int a = 0; a < int(problem_.mesh.axes.size()); ++a)
      if (a != axis_) without[size_t(a)] = problem_.cost.part(class_of(w.class_id[size_t(a)]), a, others_, d);
    if (std::ranges::find(without, 0.0) != without.end()) continue;
    Parts with = without;
    without[size_t(axis_)] = 0;
    const ComputeSpeed speed = problem_.cost.speed(w, d);
    const auto add = [&](const Work& work, double rate) {
      const double fixed = problem_.cost.device_flops(work, without) / w.turns;
      const double slope = problem_.cost.device_flops(work, with) / w.turns - fixed;
      if (slope > 0) rows.insert({share(class_id, d), speed.call_seconds + fixed / rate, slope / rate});
    };
    add(w, speed.flops_per_second);
    add(moved, problem_.cluster.devices[size_t(d)].memory_bytes_per_second());
  }
  above(z, rows);
}

void RatioProgram::add_conversion(const CostTerm& term) {
  const int before = cuts(term.node, term.from)[size_t(axis_)], after = cuts(term.node, term.to)[size_t(axis_)];
  if (before < 0 && after < 0) return;
  const bool along = term.from.on[size_t(axis_)] != term.to.on[size_t(axis_)];
  if (!along) return add_along_other_axis(term, before);
  if (term.opcode == Opcode::halo_exchange) return;  // the same at all shares
  if (before >= 0 && after >= 0) return add_all_to_all(term);
  const int class_id = std::max(before, after);
  if (term.realisation == Realisation::hierarchical) return add_hierarchical(term, class_id);
  const int z = maximum(term.count * problem_.cost.times(term.node, term.opcode));
  if (term.opcode == Opcode::slice)
    add_slice(term, class_id, z);
  else
    add_gathering(term, class_id, z);
}

/// Groups along another axis move the more the more their coordinate on this axis has.
void RatioProgram::add_along_other_axis(const CostTerm& term, int class_id) {
  const auto other = std::ranges::mismatch(term.from.on, term.to.on).in1 - term.from.on.begin();
  const auto seconds_at = [&](double part) {
    const auto held = [&](const Form& form) {
      std::vector<double> out;
      const Cuts by = cuts(term.node, form);
      Cuts besides = by;  // of a halo along the other axis
      besides[size_t(other)] = -1;
      for (int d = 0; d < problem_.cost.device_count(); ++d)
        out.push_back(double(problem_.cost.bytes(term.node)) * part *
                      (beside(by, d) + form.on[size_t(other)].overlap() * beside(besides, d)));
      return out;
    };
    return problem_.cost.communication()
        .movement(term.opcode, int(other), held(term.from), held(term.to), term.realisation)
        .device_seconds;
  };
  const std::vector<double> all = seconds_at(1), half = seconds_at(0.5);
  std::set<Line> rows;
  for (int d = 0; d < problem_.cost.device_count(); ++d) {
    const double slope = 2 * (all[size_t(d)] - half[size_t(d)]);
    if (slope > 0) rows.insert({share(class_id, d), all[size_t(d)] - slope, slope});
  }
  const int z = maximum(term.count * problem_.cost.times(term.node, term.opcode));
  above(z, rows);
}

void RatioProgram::add_slice(const CostTerm& term, int class_id, int z) {
  const double bytes = double(problem_.cost.bytes(term.node));
  for (int d : examples_)
    above(
        z, 0,
        2 * bytes * beside(cuts(term.node, term.to), d) / problem_.cluster.devices[size_t(d)].memory_bytes_per_second(),
        share(class_id, d));
}

void RatioProgram::add_gathering(const CostTerm& term, int class_id, int z) {
  const double bytes = double(problem_.cost.bytes(term.node)), n = problem_.mesh.axes[size_t(axis_)].size;
  std::set<Line> rows;
  for (int d = 0; d < problem_.cost.device_count(); ++d) {
    const double seconds =
        bytes * beside(cuts(term.node, term.from), d) / problem_.cost.link(axis_, d).bandwidth_bytes_per_second;
    if (term.realisation == Realisation::padded)
      rows.insert({share(class_id, d), 0, (n - 1) * seconds});
    else
      rows.insert({share(class_id, d), seconds, -seconds});
  }
  above(z, rows);
}

/// What depends on the shares: the fullest host gathers or scatters, and what the emptiest lacks goes between hosts.
void RatioProgram::add_hierarchical(const CostTerm& term, int class_id) {
  const double count = term.count * problem_.cost.times(term.node, term.opcode);
  const int within = maximum(count), between = maximum(count);
  for (int first = 0; first < problem_.cost.device_count(); ++first) {
    if (problem_.cost.coordinate(first, axis_) != 0) continue;
    const GroupLevels& levels = problem_.cost.communication().levels(axis_, first);
    const double bytes = double(problem_.cost.bytes(term.node)) * beside(cuts(term.node, term.from), first);
    const double outside = bytes / levels.between.bandwidth_bytes_per_second * scale;
    for (const GroupLevels::Host& host : levels.hosts) {
      std::map<int, double> devices;  // by variable of their share
      for (int d : host.devices) ++devices[share(class_id, d)];
      std::vector<std::pair<int, double>> inside{{within, 1}}, lacking{{between, 1}};
      for (const auto& [variable, number] : devices) {
        inside.push_back({variable, -number * bytes / host.inside.bandwidth_bytes_per_second * scale});
        lacking.push_back({variable, number * outside});
      }
      if (host.devices.size() > 1) lp_.add_row(0, HUGE_VAL, inside);
      if (levels.hosts.size() > 1) lp_.add_row(outside, HUGE_VAL, lacking);
    }
  }
}

void RatioProgram::add_all_to_all(const CostTerm& term) {
  const bool by_host = term.realisation == Realisation::hierarchical;
  const int z = by_host ? -1 : maximum(term.count * problem_.cost.times(term.node, term.opcode));
  std::vector<int> larger;  // by type of coordinate: of its parts before and after
  for (size_t t = 0; t < types_.devices.size(); ++t) {
    larger.push_back(lp_.add_variable(0, 1, 0));
    for (const Form* form : {&term.from, &term.to}) {
      const int class_id = cuts(term.node, *form)[size_t(axis_)];
      lp_.add_row(0, HUGE_VAL, {{larger[t], 1}, {share_[size_t(class_id)][t], -1}});
    }
  }
  if (by_host) return add_exchange_by_host(term, larger);
  const double n = problem_.mesh.axes[size_t(axis_)].size;
  const Cluster& cluster = problem_.cluster;
  std::map<int, std::map<int, double>> leaving;  // host -> variable -> seconds
  std::set<std::tuple<int, double>> rows;
  for (int d = 0; d < problem_.cost.device_count(); ++d) {
    const double moved = double(problem_.cost.bytes(term.node)) * beside(cuts(term.node, term.from), d) * (n - 1) / n;
    const int host = cluster.devices[size_t(d)].host, variable = larger[type(d)];
    rows.insert({variable, moved / cluster.hosts[size_t(host)].inside.bandwidth_bytes_per_second});
    if (crosses_hosts(d)) leaving[host][variable] += moved / cluster.outside(host).bandwidth_bytes_per_second * scale;
  }
  for (const auto& [variable, seconds] : rows) above(z, 0, seconds, variable);
  for (const auto& [host, seconds] : leaving) above(z, seconds);
  add_uplinks(term, larger, z);
}

/// What an all-to-all sends from rack to rack takes no longer than the maximum.
void RatioProgram::add_uplinks(const CostTerm& term, const std::vector<int>& larger, int maximum) {
  const double n = problem_.mesh.axes[size_t(axis_)].size;
  for (const Uplinks::Exchange& exchange : problem_.cost.communication().uplinks(axis_).exchanges()) {
    std::map<int, double> seconds;  // by variable
    for (const auto& [d, part] : exchange.parts) {
      const double moved = double(problem_.cost.bytes(term.node)) * beside(cuts(term.node, term.from), d) * (n - 1) / n;
      seconds[larger[type(d)]] += part * moved / exchange.bytes_per_second * scale;
    }
    above(maximum, seconds);
  }
}

/// What devices hand over passes the leader of the fullest host twice, and the link of the fullest one.
void RatioProgram::add_exchange_by_host(const CostTerm& term, const std::vector<int>& larger) {
  const double count = term.count * problem_.cost.times(term.node, term.opcode);
  const double n = problem_.mesh.axes[size_t(axis_)].size;
  const int within = maximum(2 * count), between = maximum(count);
  add_uplinks(term, larger, between);
  for (int first = 0; first < problem_.cost.device_count(); ++first) {
    if (problem_.cost.coordinate(first, axis_) != 0) continue;
    const GroupLevels& levels = problem_.cost.communication().levels(axis_, first);
    const double bytes =
        double(problem_.cost.bytes(term.node)) * beside(cuts(term.node, term.from), first) * (n - 1) / n * scale;
    const auto over = [&](int maximum, const Link& link, const std::vector<int>& devices) {
      std::map<int, double> seconds;  // by variable
      for (int d : devices) seconds[larger[type(d)]] += bytes / link.bandwidth_bytes_per_second;
      above(maximum, seconds);
    };
    const bool several = levels.hosts.size() > 1;
    for (const GroupLevels::Host& host : levels.hosts) {
      if (several) over(between, host.outside, host.devices);
      if (several && host.devices.size() > 1) over(within, host.inside, host.devices);
      for (int d : host.devices)
        if (!several) over(between, host.inside, {d});
    }
  }
}

}  // namespace hetsynth::synth
