#include "synth/wcsp/message_passing.h"

#include <algorithm>
#include <span>
#include <utility>

#include "dsl/base/error.h"

namespace hetsynth::synth {
namespace {

/// Makes the least entry 0 and returns what it was.
Picoseconds lift(Table* table) {
  Picoseconds least = forbidden;
  for (Picoseconds cost : *table) least = std::min(least, cost);
  HETSYNTH_CHECK(least < forbidden, "a table without a possible entry");
  for (Picoseconds& cost : *table) cost -= cost < forbidden ? least : 0;
  return least;
}

/// The least entry of so many rows and columns once their values have handed something to the pair.
HETSYNTH_AVX2_TOO Picoseconds least_moved(const Picoseconds* entry, size_t rows, size_t columns,
                                          const Picoseconds* by_row, const Picoseconds* by_column) {
  Picoseconds least = forbidden;
  for (size_t x = 0; x < rows; ++x, entry += columns)
    for (size_t y = 0; y < columns; ++y) {
      const Picoseconds moved = entry[y] < forbidden ? entry[y] + by_row[x] + by_column[y] : forbidden;
      least = moved < least ? moved : least;
    }
  return least;
}

}  // namespace

void MessagePassing::sweep() {
  pass(true);
  pass(false);
}

/// To costs by value, in a padded line, what a line says of the classes that an end has them in.
[[gnu::always_inline]] inline void MessagePassing::add_by_class(const End& end, size_t domain, const Rough* line,
                                                                Rough* total) const {
  if (end.plain) return add_line(line, domain, total);
  for_each_at(wide_, line, size_t(end.senders), classes_.data() + end.classes, domain, AddPicked{total});
}

/// A cell's own costs and all that it was told, in a padded line.
[[gnu::always_inline]] inline void MessagePassing::add_up(size_t c, Rough* total) const {
  Lanes costs;
  if (cells_[c].narrow) return add_up_narrow(c, &costs), store(costs, total);
  const size_t domain = cells_[c].domain;
  const Rough* own = unary_.data() + cells_[c].unary;
  for (size_t i = 0; i < domain; i += lanes) load(own + i, &costs), store(costs, total + i);
  for (size_t e = quotient_.cells[c].ends_begin; e < quotient_.cells[c].ends_end; ++e)
    add_by_class(ends_[e], domain, messages_.data() + ends_[e].incoming, total);
}

/// The same in a register.
[[gnu::always_inline]] inline void MessagePassing::add_up_narrow(size_t c, Lanes* total) const {
  const End *end = ends_.data() + quotient_.cells[c].ends_begin, *last = ends_.data() + quotient_.cells[c].ends_end;
  const Rough* messages = messages_.data();
  const int* classes = classes_.data();
  Lanes sum, line, picked;
  Places at;
  load(unary_.data() + cells_[c].unary, &sum);
  for (; end != last; ++end) {
    load(messages + end->incoming, &line), load(classes + end->classes, &at);
    pick(line, at, &picked);
    sum += picked;
  }
  *total = sum;
}

HETSYNTH_AVX2_TOO void MessagePassing::pass(bool forward) {
  Rough* total = total_.data();
  const size_t *sends = sends_[forward].data(), *send_to = send_to_[forward].data();
  for (size_t k = 0; k < cells_.size(); ++k) {
    const size_t c = forward ? k : cells_.size() - 1 - k, domain = cells_[c].domain;
    if (cells_[c].narrow) {
      Lanes sum, least;
      add_up_narrow(c, &sum);
      least = sum;
      spread_least(&least);
      store((sum - least) * cells_[c].weight, total);
    } else {
      add_up(c, total);
      scale_line(total, domain, least_of_line(total, domain), cells_[c].weight, total);
    }
    for (size_t i = c > 0 ? send_to[c - 1] : 0, end = send_to[c]; i < end; ++i) {
      const End& to = ends_[sends[i]];
      to.narrow ? send_narrow(to, domain) : send(to, domain);
    }
  }
}

/// What a cell knows (in `total_`) of each class of its values: the least.
[[gnu::always_inline]] inline void MessagePassing::know_by_class(const End& end, size_t domain, Rough* by_class) const {
  const Rough* total = total_.data();
  Lanes least = Lanes{} + rough_forbidden;
  if (end.plain) {
    for (size_t i = 0; i < domain; i += lanes) {
      Lanes knows;
      load(total + i, &knows);
      store(knows < least ? knows : least, by_class + i);
    }
  } else if (end.member_rows > 0) {
    least_at(total, domain, members_.data() + end.members, end.member_rows, &least);
    store(least, by_class);
  } else {
    const int* own = classes_.data() + end.classes;
    for (size_t i = 0; i < size_t(end.senders); i += lanes) store(least, by_class + i);
    for (size_t x = 0; x < domain; ++x) by_class[own[x]] = std::min(by_class[own[x]], total[x]);
  }
}

/// Minimum over the sender of what it knows and the pair's cost; its least entry is taken out.
[[gnu::always_inline]] inline void MessagePassing::send(const End& end, size_t domain) {
  const Rough* back = messages_.data() + end.incoming;
  Rough *by_class = by_class_.data(), *sent = sent_.data();
  know_by_class(end, domain, by_class);
  for (size_t i = 0; i < size_t(end.senders); i += lanes) {
    Lanes knows, known;
    load(by_class + i, &knows), load(back + i, &known);
    store(knows - known, by_class + i);
  }
  const size_t receivers = size_t(end.receivers);
  synth::minimum_plus(end.costs, padded(receivers), end.senders, by_class, sent);
  // The table's padding adds what is forbidden.
  scale_line_padded(sent, receivers, least_of_line(sent, receivers), 1, messages_.data() + end.outgoing);
}

/// The same in registers.
[[gnu::always_inline]] inline void MessagePassing::send_narrow(const End& end, size_t domain) {
  Rough* by_class = by_class_.data();
  know_by_class(end, domain, by_class);
  Lanes knows, known, best[1], least;
  load(by_class, &knows), load(messages_.data() + end.incoming, &known);
  store(knows - known, by_class);
  minimum_of_rows(end.costs, lanes, end.senders, by_class, best);
  least = best[0];
  spread_least(&least);
  best[0] -= least;
  keep_first(size_t(end.receivers), best);
  store(best[0], messages_.data() + end.outgoing);
}

/// What a cell hands to the pairs of one of its ends, by value: its share of all it knows, less what it got from there.
[[gnu::always_inline]] inline void MessagePassing::hand(size_t c, size_t e, const Rough* total, Rough* out) const {
  const End& end = ends_[e];
  const Rough share = end.later ? cells_[c].weight : 0;
  for_each_at(wide_, messages_.data() + end.incoming, size_t(end.senders), classes_.data() + end.classes,
              cells_[c].domain, ShareLessPicked{total, share, out});
}

/// Edge by edge, either end, in whole vectors.
HETSYNTH_AVX2_TOO std::vector<Rough> MessagePassing::all_handed() const {
  std::vector<Rough> out(handed_), total(total_.size());  // as wide as the widest, padded
  std::vector<std::array<char, 2>> known(edges_.size(), {0, 0});
  for (size_t c = 0; c < cells_.size(); ++c) {
    add_up(c, total.data());
    for (size_t e = quotient_.cells[c].ends_begin; e < quotient_.cells[c].ends_end; ++e) {
      const Quotient::End& end = quotient_.ends[e];
      char& there = known[size_t(end.edge)][!end.first];
      if (end.is_representative && !there)
        hand(c, e, total.data(), out.data() + edges_[size_t(end.edge)].handed[!end.first]);
      there = there || end.is_representative;
    }
  }
  return out;
}

HETSYNTH_AVX2_TOO double MessagePassing::bound() const {
  double sum = 0;
  const std::vector<Rough> handed = all_handed();
  std::vector<Rough> total(total_.size());
  for (size_t c = 0; c < cells_.size(); ++c) {
    const Quotient::Cell& cell = quotient_.cells[c];
    std::copy_n(unary_.data() + cells_[c].unary, cells_[c].domain, total.data());
    for (size_t e = cell.ends_begin; e < cell.ends_end; ++e) {
      const Edge& edge = edges_[size_t(quotient_.ends[e].edge)];
      const size_t side = !quotient_.ends[e].first;
      const Rough* given = handed.data() + edge.handed[side];
      for (size_t x = 0; x < std::min(edge.givers[side], cells_[c].domain); ++x) total[x] -= given[x];
    }
    sum += double(least_of(total.data(), cells_[c].domain)) * cell.count;
  }
  std::vector<Rough> by_class(by_class_.size()), sent(sent_.size());
  for (size_t e = 0; e < edges_.size(); ++e) {
    const PairTable& table = *edges_[e].table;
    auto least_of_class = [&](bool first) {
      const Rough* given = handed.data() + edges_[e].handed[!first];
      const size_t givers = edges_[e].givers[!first];
      if (givers == size_t(table.class_count(first))) return given;  // every value is a class of its own, in order
      std::fill_n(by_class.data(), table.class_count(first), 4 * rough_forbidden);
      for (size_t x = 0; x < givers; ++x) {
        Rough& least = by_class[size_t(table.classes(first)[x])];
        least = std::min(least, given[x]);
      }
      return static_cast<const Rough*>(by_class.data());
    };
    table.minimum_plus(true, least_of_class(true), sent.data());
    const Rough* receivers = least_of_class(false);
    const size_t count = size_t(table.class_count(false));
    for (size_t y = 0; y < count; ++y) sent[y] += receivers[y];
    sum += double(least_of(sent.data(), count)) * quotient_.edges[e].count;
  }
  return sum;
}

Reparametrised MessagePassing::apply() const {
  Reparametrised out;
  out.bound = moved_over(&out);
  return out;
}

/// Returns the bound; the costs that are left go to `out`, if any.
Picoseconds MessagePassing::moved_over(Reparametrised* out) const {
  Picoseconds bound = 0;
  std::vector<Picoseconds> rounded;
  rounded.reserve(handed_);
  // Half away from zero, as llround does, without a call.
  for (Rough cost : all_handed()) rounded.push_back(Picoseconds(double(cost) + (cost < 0 ? -0.5 : 0.5)));
  const auto handed = [&](size_t e, size_t side) {
    return std::span(rounded).subspan(edges_[e].handed[side], edges_[e].givers[side]);
  };
  Table costs;
  for (const Quotient::Cell& cell : quotient_.cells) {
    costs = network_.unary(cell.example);
    for (size_t e = cell.ends_begin; e < cell.ends_end; ++e) {
      const auto given = handed(size_t(quotient_.ends[e].edge), !quotient_.ends[e].first);
      for (size_t x = 0; x < costs.size(); ++x)
        if (costs[x] < forbidden) costs[x] -= given[x];
    }
    bound += lift(&costs) * cell.count;
    if (out) out->cells.push_back(std::move(costs));
  }
  for (size_t e = 0; e < edges_.size(); ++e) {
    const Table& original = network_.store()[quotient_.edges[e].table];
    const auto by_row = handed(e, 0), by_column = handed(e, 1);
    const Picoseconds least =
        least_moved(original.data(), by_row.size(), by_column.size(), by_row.data(), by_column.data());
    HETSYNTH_CHECK(least < forbidden, "a table without a possible entry");
    bound += least * quotient_.edges[e].count;
    if (out) out->edges.push_back({&original, edges_[e].handed[0], edges_[e].handed[1], least});
  }
  if (out) out->moved = std::move(rounded);
  return bound;
}

/// Of a cell's ends one that is like the k-th of one of its variables.
size_t MessagePassing::end_like(size_t c, size_t k, const Network::End& of) const {
  const Quotient::Cell& cell = quotient_.cells[c];
  const auto like = [&](size_t e) {
    return quotient_.ends[e].edge == quotient_.edge_of[size_t(of.pair)] && quotient_.ends[e].first == of.first;
  };
  if (like(cell.ends_begin + k)) return cell.ends_begin + k;
  size_t e = cell.ends_begin;
  while (e < cell.ends_end && !like(e)) ++e;
  HETSYNTH_CHECK(e < cell.ends_end, "variables of one cell have ends of the same edges");
  return e;
}

HETSYNTH_AVX2_TOO std::vector<int> MessagePassing::decode() const {
  std::vector<int> chosen(quotient_.order.size(), -1);
  std::vector<Rough> total(total_.size());
  for (bool improving : {false, true, true})
    for (int v : quotient_.order) {
      const size_t c = size_t(quotient_.cell_of[size_t(v)]), domain = cells_[c].domain;
      std::copy_n(unary_.data() + cells_[c].unary, padded(domain), total.data());
      const std::span<const Network::End> ends = network_.ends(v);
      for (size_t k = 0; k < ends.size(); ++k) {
        const Network::End& end = ends[k];
        const size_t number = size_t(quotient_.edge_of[size_t(end.pair)]);
        const Edge& edge = edges_[number];
        const int other = chosen[size_t(end.other)];
        const bool told = other < 0 || (!improving && quotient_.edges[number].forward == end.first);
        const Rough* costs = messages_.data() + edge.into(end.first);
        if (!told) {
          const std::vector<int>& others = *edge.values[end.first];
          const size_t at = size_t(std::lower_bound(others.begin(), others.end(), other) - others.begin());
          costs = edge.table->beside(!end.first, edge.table->classes(!end.first)[at]);
        }
        add_by_class(ends_[end_like(c, k, end)], domain, costs, total.data());
      }
      const auto best = std::min_element(total.begin(), total.begin() + ptrdiff_t(domain));
      chosen[size_t(v)] = values_[c][size_t(best - total.begin())];
    }
  if (network_.cost(chosen) >= forbidden) return {};
  return chosen;
}

HETSYNTH_AVX2_TOO std::vector<Rough> MessagePassing::excess(std::vector<size_t>* begins) const {
  std::vector<Rough> out, total(total_.size());
  out.reserve(value_count_);
  begins->reserve(cells_.size() + 1);
  for (size_t c = 0; c < cells_.size(); ++c) {
    begins->push_back(out.size());
    add_up(c, total.data());
    const Rough least = least_of_line(total.data(), cells_[c].domain);
    for (size_t x = 0; x < cells_[c].domain; ++x) out.push_back(total[x] - least);
  }
  begins->push_back(out.size());
  return out;
}

}  // namespace hetsynth::synth
