// Sequential tree-reweighted message passing (Kolmogorov 2006) over the cells of a quotient: one message serves all
// pairs that look alike, as if repeated layers formed a ring.
#pragma once
#include <array>
#include <map>
#include <memory>
#include <vector>

#include "synth/wcsp/learnt_messages.h"
#include "synth/wcsp/pair_table.h"
#include "synth/wcsp/quotient.h"

namespace hetsynth::synth {

/// Costs moved between a network's variables and pairs, the same for all that look alike: every assignment costs
/// `bound` less than in the original, and no entry is negative.
struct Reparametrised {
  /// A pair's costs: the original ones, which the network keeps, and what has been moved there. Many pairs have one
  /// table but no two the same messages: tables of their own would take gigabytes.
  struct Edge {
    const Table* original;
    size_t from_rows, from_columns;  ///< where in `moved` that of their values begins
    Picoseconds least;               ///< what was taken out of all entries
  };
  std::vector<Table> cells;  ///< by cell: costs of single values
  std::vector<Edge> edges;
  std::vector<Picoseconds> moved;
  Picoseconds bound = 0;

  /// By edge: [value of a][value of b].
  MovedTable edge(size_t e) const {
    const Edge& at = edges[e];
    return {at.original, moved.data() + at.from_rows, moved.data() + at.from_columns, at.least};
  }
};

/// Messages in single precision. The network and the quotient must outlive this.
class MessagePassing {
 public:
  /// `values`: by cell, those that take part, none of the cells without; the others' messages are not kept up.
  MessagePassing(const Network& network, const Quotient& quotient, const ValueLists& values);

  /// Takes over what the other has worked out for values that both have. Same network; cells may differ.
  void begin_with(const MessagePassing& other);
  /// Takes over what was learnt in another network, by the names of values in this one. All values take part.
  void begin_with(const LearntMessages& known, const NamedValues& names);
  /// For other networks. All values take part.
  LearntMessages learnt(const NamedValues& names) const;
  /// Forward and backward, each cell once.
  void sweep();
  /// Leaves the messages as `bound` and `apply` need them.
  void pass_forward() { pass(true); }
  /// What the sum of all least entries comes to after a forward pass: with all values, up to rounding, a bound.
  double bound() const;
  /// After a forward pass, with all values: rounded to whole picoseconds and applied exactly, so that floating point
  /// cannot invalidate the bound. Every pair must be arc consistent.
  Reparametrised apply() const;
  /// The bound that this would give.
  Picoseconds exact_bound() const { return moved_over(nullptr); }
  /// An assignment of all variables: in order, each takes what is cheapest given the earlier ones and the messages of
  /// the later ones; then single changes. Empty if it is forbidden.
  std::vector<int> decode() const;
  /// What each value lacks to its cell's best, cell by cell. `begins`: by cell, and behind the last.
  std::vector<Rough> excess(std::vector<size_t>* begins) const;
  size_t value_count() const { return value_count_; }
  /// Entries of cost tables that a sweep looks at.
  int64_t sweep_entries() const { return sweep_entries_; }
  /// In whole vectors.
  std::vector<Rough>& messages() { return messages_; }

 private:
  struct Edge {
    const PairTable* table;
    std::array<const std::vector<int>*, 2> values;  ///< of [0] a and b: those of all cells there
    size_t into_a, into_b;                          ///< messages to either end, by class of its values
    std::array<size_t, 2> handed, givers;           ///< what either end hands to the pair: where it begins, and values
    size_t into(bool first) const { return first ? into_a : into_b; }
  };
  struct Cell {
    size_t unary, domain;
    Rough weight;  ///< share of its costs that each pair on the busier side gets
    bool narrow;   ///< one vector holds its costs, and one the classes of its values at any of its ends
  };

  /// An end of a cell, as sweeps need it.
  struct End {
    const Rough* costs;             ///< by class of own values: by class of the others', in padded lines
    size_t incoming, outgoing;      ///< messages
    size_t classes;                 ///< of own values: where they begin, in whole vectors
    size_t members;                 ///< of own classes: where they begin, a value of each in a vector
    int member_rows;                ///< the most values of a class; 0: not kept, as for many values or classes
    int senders, receivers;         ///< own classes and the others'
    bool plain;                     ///< every value is a class of its own, in order
    bool narrow;                    ///< one vector holds the classes of either side
    bool later, is_representative;  ///< as in the quotient
  };

  void add_edge(const Quotient::Edge& edge, const ValueLists& values);
  void add_end(const Quotient::End& end, const std::vector<int>& values);
  void add_members(End* end, size_t domain);
  void add_by_class(const End& end, size_t domain, const Rough* line, Rough* total) const;
  void add_up(size_t cell, Rough* total) const;
  void add_up_narrow(size_t cell, Lanes* total) const;
  size_t end_like(size_t cell, size_t k, const Network::End& of) const;
  void pass(bool forward);
  void send(const End& end, size_t domain);
  void send_narrow(const End& end, size_t domain);
  void know_by_class(const End& end, size_t domain, Rough* by_class) const;
  Picoseconds moved_over(Reparametrised* out) const;
  void hand(size_t cell, size_t end, const Rough* total, Rough* out) const;
  std::vector<Rough> all_handed() const;

  const Network& network_;
  const Quotient& quotient_;
  const bool wide_ = picks_in_registers();
  ValueLists values_;
  Interner<int> lists_;
  std::map<std::array<int, 4>, std::unique_ptr<PairTable>> tables_;  ///< by number in the store, columns, and lists
  std::vector<Cell> cells_;
  std::vector<Edge> edges_;
  size_t value_count_ = 0;
  int64_t sweep_entries_ = 0;
  std::vector<Rough> unary_;                    ///< cell by cell, in padded lines (synth/support/simd.h)
  std::vector<Rough> messages_;                 ///< edge by edge, either end, in lines padded with 0
  std::vector<int> classes_;                    ///< end by end: class of every value, in whole vectors
  std::vector<int> members_;                    ///< end by end: values of every class
  std::vector<End> ends_;                       ///< as the quotient's
  std::array<std::vector<size_t>, 2> sends_;    ///< backwards and forwards: ends, cell by cell
  std::array<std::vector<size_t>, 2> send_to_;  ///< by cell: where the next one's begin
  size_t handed_ = 0;                           ///< values that hand something to a pair, all together
  std::vector<Rough> total_, by_class_, sent_;  ///< scratch
};

}  // namespace hetsynth::synth
