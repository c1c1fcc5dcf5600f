#include "synth/wcsp/reparametrise.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "synth/support/parameters.h"

namespace hetsynth::synth {
namespace {

/// Sweeps with momentum from one look at the bound to the next.
constexpr int sweeps_to_look = sweeps_along + sweeps_beyond;

ValueLists all_values(const Network& network, const Quotient& quotient) {
  ValueLists out;
  for (const Quotient::Cell& cell : quotient.cells) {
    out.emplace_back(size_t(network.domain(cell.example)));
    std::iota(out.back().begin(), out.back().end(), 0);
  }
  return out;
}

/// By cell and value: whether it is chosen.
struct Chosen {
  std::vector<char> values;
  std::vector<size_t> begins;  ///< by cell, and behind the last
  char* at(int cell) { return values.data() + begins[size_t(cell)]; }
};

/// Without values that are forbidden beside all values of a neighbour.
ValueLists consistent(const Network& network, const Quotient& quotient, Chosen chosen) {
  std::array<std::vector<char>, 2> some;  // of all cells at either end of an edge
  std::vector<int> others;
  const auto gather = [&](const Quotient::Edge& edge, size_t side) {
    some[side].assign(size_t(side == 0 ? edge.rows : edge.columns), 0);
    for (int cell : edge.cells[side])
      for (size_t x = 0; x < some[side].size(); ++x) some[side][x] |= chosen.at(cell)[x];
  };
  for (bool changed = true; changed;) {
    changed = false;
    for (const Quotient::Edge& edge : quotient.edges) {
      const Table& table = network.store()[edge.table];
      for (size_t side : {0, 1}) {
        gather(edge, 0), gather(edge, 1);  // a cell may be at both ends
        others.clear();
        for (size_t y = 0; y < some[1 - side].size(); ++y)
          if (some[1 - side][y]) others.push_back(int(y));
        for (size_t x = 0; x < some[side].size(); ++x) {
          if (!some[side][x]) continue;
          const auto possible = [&](int y) {
            return table[side == 0 ? x * size_t(edge.columns) + size_t(y) : size_t(y) * size_t(edge.columns) + x] <
                   forbidden;
          };
          if (std::any_of(others.begin(), others.end(), possible)) continue;
          changed = true;
          for (int cell : edge.cells[side]) chosen.at(cell)[x] = 0;
        }
      }
    }
  }
  ValueLists out(quotient.cells.size());
  for (size_t c = 0; c < out.size(); ++c)
    for (size_t i = chosen.begins[c]; i < chosen.begins[c + 1]; ++i)
      if (chosen.values[i]) out[c].push_back(int(i - chosen.begins[c]));
  return out;
}

}  // namespace

Reparametrisation::Reparametrisation(const Network& network, const Quotient& quotient, const SearchLimits& limits)
    : network_(network), quotient_(quotient), limits_(limits), all_(network, quotient, all_values(network, quotient)) {}

/// The least excess of each cell, what was decoded, and of the rest a part by excess.
ValueLists Reparametrisation::promising(double promising_part) const {
  Chosen chosen;
  const std::vector<Rough> excess = all_.excess(&chosen.begins);
  std::vector<Rough> sorted = excess;
  const size_t kept = size_t(double(sorted.size()) * promising_part);
  std::nth_element(sorted.begin(), sorted.begin() + ptrdiff_t(kept), sorted.end());
  const Rough most = sorted[kept];
  chosen.values.reserve(excess.size());
  for (Rough e : excess) chosen.values.push_back(e <= most);
  for (size_t v = 0; v < decoded_.size(); ++v) chosen.at(quotient_.cell_of[v])[decoded_[v]] = 1;
  return consistent(network_, quotient_, std::move(chosen));
}

void Reparametrisation::decode(const MessagePassing& messages) {
  std::vector<int> found = messages.decode();
  if (found.empty() || (!decoded_.empty() && network_.cost(decoded_) <= network_.cost(found))) return;
  decoded_ = std::move(found);
}

void Reparametrisation::begin_with(const Reparametrisation& other) {
  all_.begin_with(other.all_);
  decoded_ = other.decoded_;
}

void Reparametrisation::begin_with(const LearntMessages& known, const NamedValues& names) {
  all_.begin_with(known, names);
  take_if_better();
}

double Reparametrisation::improve(int sweeps) {
  const double before = reached_;
  // Where cells stand for many variables the bound soon rises no more, and strides lead to a solution as well.
  const bool momentum = limits_.momentum && quotient_.cells.size() == size_t(network_.variable_count());
  for (int done = 0; done < sweeps && !limits_.stop.stopped(); done += sweeps_to_look)
    momentum ? sweep_with_momentum() : sweep_in_strides();
  return (reached_ - before) / std::max(1.0, std::abs(before + double(limits_.constant_cost)));
}

void Reparametrisation::sweep_once(MessagePassing* messages) {
  messages->sweep();
  limits_.stop.spend(messages->sweep_entries());
}

void Reparametrisation::sweep(int times) {
  for (int i = 0; i < times && !limits_.stop.stopped(); ++i) sweep_once(&all_);
}

/// Messages drift: what they changed by, several times over, is often an even better step.
void Reparametrisation::sweep_in_strides() {
  before_ = all_.messages();
  sweep(sweeps_along);
  take_if_better();
  go_on(Rough(stride_));
  sweep(sweeps_beyond);
  stride_ = std::clamp(stride_ * (take_if_better() ? 2 : 0.5), least_stride, greatest_stride);
}

/// By a multiple of what messages changed by since `before_`, which they then are.
HETSYNTH_AVX2_TOO void Reparametrisation::go_on(Rough multiple) {
  Rough *messages = all_.messages().data(), *before = before_.data();
  for (size_t i = 0, count = before_.size(); i < count; i += lanes) {
    Lanes now, then;
    load(messages + i, &now), load(before + i, &then);
    store(now, before + i);
    store(now + multiple * (now - then), messages + i);
  }
}

/// Or they go on before each sweep by a part of what the last one changed, the greater the longer that has gone well
/// (Nesterov 1983).
void Reparametrisation::sweep_with_momentum() {
  for (int i = 0; i < sweeps_to_look && !limits_.stop.stopped(); ++i) {
    if (in_a_row_ == 0)
      before_ = all_.messages();
    else
      go_on(Rough(in_a_row_) / Rough(in_a_row_ + 3));
    ++in_a_row_;
    sweep_once(&all_);
  }
  if (!take_if_better()) in_a_row_ = 0;
}

/// Else goes back to the best messages.
bool Reparametrisation::take_if_better() {
  all_.pass_forward();
  const double bound = all_.bound();
  const bool better = bound > reached_;
  if (better) {
    reached_ = bound;
    best_ = all_.messages();
  } else {
    all_.messages() = best_;
  }
  return better;
}

std::vector<ValueLists> Reparametrisation::guesses() {
  if (decoded_.empty() || limits_.stop.stopped()) return {};
  if (all_.value_count() > few_values_to_guess) {
    MessagePassing few(network_, quotient_, promising(guessed_among));
    few.begin_with(all_);
    for (int i = 0; i < likely_sweeps && !limits_.stop.stopped(); ++i) sweep_once(&few);
    few.pass_forward();
    decode(few);
    all_.begin_with(few);
    for (int i = 0; i < settling_sweeps && !limits_.stop.stopped(); ++i) sweep_once(&all_);
    all_.pass_forward();
    decode(all_);
  }
  std::vector<ValueLists> out;
  for (double part : guessed_parts) out.push_back(promising(part));
  all_.messages() = best_;
  return out;
}

}  // namespace hetsynth::synth
