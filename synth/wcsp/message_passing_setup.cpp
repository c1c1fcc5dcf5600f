// Where messages lie and what they begin with: all of MessagePassing that is done once, before sweeps.
#include <algorithm>
#include <utility>

#include "synth/wcsp/message_passing.h"

namespace hetsynth::synth {
namespace {

/// Returns the values of some cells, together.
std::vector<int> values_at(const std::vector<int>& cells, const ValueLists& values) {
  std::vector<int> out = values[size_t(cells[0])];
  for (size_t i = 1; i < cells.size(); ++i) {
    if (values[size_t(cells[i])] == out) continue;
    std::vector<int> merged;
    std::set_union(out.begin(), out.end(), values[size_t(cells[i])].begin(), values[size_t(cells[i])].end(),
                   std::back_inserter(merged));
    out = std::move(merged);
  }
  return out;
}

}  // namespace

MessagePassing::MessagePassing(const Network& network, const Quotient& quotient, const ValueLists& values)
    : network_(network), quotient_(quotient), values_(values) {
  for (const Quotient::Edge& edge : quotient.edges) add_edge(edge, values);
  size_t widest = 0;
  for (size_t c = 0; c < quotient.cells.size(); ++c) {
    const Quotient::Cell& from = quotient.cells[c];
    const Table& unary = network.unary(from.example);
    Cell cell{unary_.size(), values[c].size(), 1, wide_ && values[c].size() <= lanes};
    for (int value : values[c]) unary_.push_back(rough(unary[size_t(value)]));
    unary_.resize(padded(unary_.size()), rough_padding);
    value_count_ += cell.domain;
    double later = 0;
    for (size_t e = from.ends_begin; e < from.ends_end; ++e) {
      const Quotient::End& end = quotient.ends[e];
      Edge& edge = edges_[size_t(end.edge)];
      if (end.is_representative && edge.givers[!end.first] == 0) {
        edge.handed[!end.first] = handed_;
        edge.givers[!end.first] = values[c].size();
        handed_ += padded(values[c].size());
      }
      add_end(end, values[c]);
      cell.narrow = cell.narrow && ends_.back().senders <= int(lanes);
      if (end.is_representative) sends_[end.later].push_back(e);
      later += end.later;
    }
    for (size_t forward : {0, 1}) send_to_[forward].push_back(sends_[forward].size());
    cell.weight = Rough(1 / std::max({1.0, later, double(from.ends_end - from.ends_begin) - later}));
    widest = std::max(widest, cell.domain);
    cells_.push_back(cell);
  }
  total_.resize(padded(widest));
  for (const Edge& edge : edges_)
    for (bool first : {true, false}) widest = std::max(widest, size_t(edge.table->class_count(first)));
  for (const auto& sends : sends_)
    for (size_t e : sends) sweep_entries_ += int64_t(ends_[e].senders) * ends_[e].receivers;
  by_class_.resize(padded(widest));
  sent_.resize(padded(widest));
}

void MessagePassing::add_edge(const Quotient::Edge& from, const ValueLists& values) {
  Edge edge{};
  std::array<int, 2> lists{};
  for (size_t side : {0, 1}) {
    lists[side] = lists_.number(values_at(from.cells[side], values));
    edge.values[side] = &lists_[lists[side]];
  }
  auto& table = tables_[{from.table, from.columns, lists[0], lists[1]}];
  if (!table)
    table = std::make_unique<PairTable>(network_.store()[from.table], from.columns, *edge.values[0], *edge.values[1]);
  edge.table = table.get();
  edge.into_a = messages_.size();
  messages_.resize(messages_.size() + padded(size_t(table->class_count(true))), 0);
  edge.into_b = messages_.size();
  messages_.resize(messages_.size() + padded(size_t(table->class_count(false))), 0);
  edges_.push_back(edge);
}

/// Of a cell with these values.
void MessagePassing::add_end(const Quotient::End& from, const std::vector<int>& values) {
  const Edge& edge = edges_[size_t(from.edge)];
  const PairTable& table = *edge.table;
  End end{table.beside(from.first, 0),
          edge.into(from.first),
          edge.into(!from.first),
          classes_.size(),
          members_.size(),
          0,
          table.class_count(from.first),
          table.class_count(!from.first),
          false,
          std::max(table.class_count(true), table.class_count(false)) <= int(lanes),
          from.later,
          from.is_representative};
  const std::vector<int>&known = *edge.values[!from.first], &classes = table.classes(from.first);
  size_t at = 0;
  for (int value : values) {
    while (known[at] != value) ++at;
    classes_.push_back(classes[at]);
  }
  end.plain = end.senders == int(values.size());
  for (size_t x = 0; end.plain && x < values.size(); ++x) end.plain = classes_[end.classes + x] == int(x);
  classes_.resize(padded(classes_.size()), 0);
  if (wide_ && from.is_representative && !end.plain) add_members(&end, values.size());
  ends_.push_back(end);
}

/// Where classes are few, and each has a value in the cell. Behind a class's last value comes its first again.
void MessagePassing::add_members(End* end, size_t domain) {
  const auto classes = size_t(end->senders);
  if (classes > lanes || domain > 2 * lanes) return;
  std::array<int, lanes> first{}, count{};  // by class
  for (size_t x = domain; x-- > 0;) {
    const auto k = size_t(classes_[end->classes + x]);
    first[k] = int(x), ++count[k];
  }
  if (std::ranges::count(std::span(count).first(classes), 0) > 0) return;
  end->member_rows = *std::ranges::max_element(count);
  for (int row = 0; row < end->member_rows; ++row) members_.insert(members_.end(), first.begin(), first.end());
  count = {};
  for (size_t x = 0; x < domain; ++x) {
    const auto k = size_t(classes_[end->classes + x]);
    members_[end->members + size_t(count[k]++) * lanes + k] = int(x);
  }
}

void MessagePassing::begin_with(const MessagePassing& other) {
  std::vector<int> from_edge(edges_.size(), -1);
  for (size_t p = 0; p < quotient_.edge_of.size(); ++p)
    from_edge[size_t(quotient_.edge_of[p])] = other.quotient_.edge_of[p];
  for (size_t e = 0; e < edges_.size(); ++e)
    for (bool first : {true, false}) {
      const Edge &to = edges_[e], &from = other.edges_[size_t(from_edge[e])];
      const std::vector<int>&own = *to.values[!first], &its = *from.values[!first];
      const std::vector<int>&own_class = to.table->classes(first), &its_class = from.table->classes(first);
      for (size_t i = 0, j = 0; i < own.size() && j < its.size();) {
        if (own[i] < its[j]) {
          ++i;
        } else if (its[j] < own[i]) {
          ++j;
        } else {
          messages_[to.into(first) + size_t(own_class[i])] = other.messages_[from.into(first) + size_t(its_class[j])];
          ++i, ++j;
        }
      }
    }
}

void MessagePassing::begin_with(const LearntMessages& known, const NamedValues& names) {
  std::vector<std::vector<int>> places;  // by variable and value
  for (size_t v = 0; v < names.variables.size(); ++v)
    places.push_back(known.places(names.variables[v], names.values[v]));
  std::vector<char> done(edges_.size(), 0);
  for (size_t p = 0; p < network_.pairs().size(); ++p) {
    const size_t e = size_t(quotient_.edge_of[p]);
    if (std::exchange(done[e], 1)) continue;
    const Network::Pair& pair = network_.pairs()[p];
    for (bool first : {true, false}) {
      const auto to = size_t(first ? pair.a : pair.b), from = size_t(first ? pair.b : pair.a);
      const Rough* line = known.line(names.variables[from], names.variables[to]);
      if (!line) continue;
      const auto told = [&](int place) { return place >= 0 && line[place] < rough_forbidden / 2; };
      // What was of no use there is taken for the worst.
      Rough greatest = 0;
      for (int place : places[to])
        if (told(place)) greatest = std::max(greatest, line[place]);
      const std::vector<int>& own = edges_[e].table->classes(first);
      Rough* message = messages_.data() + edges_[e].into(first);
      for (size_t x = 0; x < own.size(); ++x) message[own[x]] = told(places[to][x]) ? line[places[to][x]] : greatest;
    }
  }
}

LearntMessages MessagePassing::learnt(const NamedValues& names) const {
  LearntMessages out;
  for (size_t v = 0; v < names.variables.size(); ++v) out.add_variable(names.variables[v], names.values[v]);
  for (size_t p = 0; p < network_.pairs().size(); ++p) {
    const Network::Pair& pair = network_.pairs()[p];
    const Edge& edge = edges_[size_t(quotient_.edge_of[p])];
    for (bool first : {true, false}) {
      const auto to = size_t(first ? pair.a : pair.b), from = size_t(first ? pair.b : pair.a);
      Rough* line = out.add(names.variables[from], names.variables[to]);
      for (int own : edge.table->classes(first)) *line++ = messages_[edge.into(first) + size_t(own)];
    }
  }
  return out;
}

}  // namespace hetsynth::synth
