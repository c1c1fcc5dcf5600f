// A weighted constraint network: variables with finite domains, costs of single variables and of pairs. The search
// minimises the sum of all costs.
#pragma once
#include <functional>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "synth/support/interner.h"
#include "synth/support/picoseconds.h"

namespace hetsynth::synth {

using Table = std::vector<Picoseconds>;

/// Adds, saturating at `forbidden`.
inline Picoseconds add(Picoseconds a, Picoseconds b) { return a + b >= forbidden ? forbidden : a + b; }

/// Tables of costs by number; equal contents have equal numbers, so that repeated layers are told by their tables, not
/// by their names.
class TableStore {
 public:
  int intern(Table table) { return tables_.number(std::move(table)); }
  const Table& operator[](int id) const { return tables_[id]; }
  int size() const { return tables_.size(); }
  /// Entry by entry, saturating.
  int sum(int a, int b);
  /// The same table with rows and columns exchanged.
  int turned(int id, int rows);

 private:
  int turned_anew(int id, int rows);

  Interner<Picoseconds> tables_;
  PairNumbers sums_, turned_;
  std::vector<std::pair<int, int>> turned_last_;  ///< by table: the rows it had last, nearly always the same; its turn
};

class Network {
 public:
  struct Pair {
    int a, b;   ///< a < b
    int table;  ///< [value of a][value of b]
  };
  /// One end of a pair.
  struct End {
    int pair;
    int other;   ///< the variable at the other end
    bool first;  ///< this end is the pair's a
  };

  Network() : store_(std::make_shared<TableStore>()) {}
  explicit Network(std::shared_ptr<TableStore> store) : store_(std::move(store)) {}

  /// Room for so many.
  void reserve(int variables, size_t pairs);
  /// `unary`: costs of the values, a table of the store. `position`: where the variable stands among the others;
  /// message passing follows it.
  int add_variable(int unary, double position);
  void add_costs(int variable, int unary);
  /// `table`: [value of a][value of b], a != b. Tables of one pair add up.
  void add_pair(int a, int b, int table);
  /// To be called once, before the pairs are read.
  void finish();
  /// Other costs, of as many values or of more or fewer; variables and pairs stay. By variable and by pair: tables.
  void replace_tables(std::vector<int> unary, const std::vector<int>& of_pairs);

  TableStore& store() const { return *store_; }
  const std::shared_ptr<TableStore>& shared_store() const { return store_; }
  double position(int variable) const { return position_[variable]; }
  int variable_count() const { return int(unary_.size()); }
  /// Of all variables together.
  int64_t value_count() const;
  int domain(int variable) const { return int(unary(variable).size()); }
  int unary_table(int variable) const { return unary_[variable]; }
  const Table& unary(int variable) const { return (*store_)[unary_[variable]]; }
  /// In rising order of their ends; no two alike.
  const std::vector<Pair>& pairs() const { return pairs_; }
  const Table& table(const Pair& pair) const { return (*store_)[pair.table]; }
  std::span<const End> ends(int variable) const {
    return {ends_.data() + first_end_[variable], ends_.data() + first_end_[variable + 1]};
  }
  /// The variables by position; of equal ones the smaller number first.
  std::vector<int> in_order() const;
  Picoseconds cost(const std::vector<int>& assignment) const;

 private:
  void sort_pairs();

  std::shared_ptr<TableStore> store_;
  std::vector<double> position_;
  std::vector<int> unary_;
  std::vector<Pair> pairs_;
  std::vector<End> ends_;
  std::vector<size_t> first_end_;
};

/// Some values of each variable.
using ValueLists = std::vector<std::vector<int>>;

/// The same, equal lists once.
struct NumberedLists {
  Interner<int> lists;
  std::vector<int> of;  ///< by variable: a list
  const std::vector<int>& operator[](size_t variable) const { return lists[of[variable]]; }
};

/// A table, and what has been moved to its rows and columns.
struct MovedTable {
  const Table* table;
  const Picoseconds* by_row = nullptr;  ///< none: nothing
  const Picoseconds* by_column = nullptr;
  Picoseconds less = 0;  ///< of all entries

  Picoseconds at(size_t row, size_t column, size_t columns) const {
    const Picoseconds cost = (*table)[row * columns + column];
    return cost < forbidden && by_row ? cost + by_row[row] + by_column[column] - less : cost;
  }
};

/// A table, and a number that tables of the same content have.
struct NumberedTable {
  MovedTable table;
  int number;
  bool stored = false;  ///< it is the network's own number
};

/// The network over some values of each variable only, in rising order, renumbered from 0.
Network restrict(const Network& network, const ValueLists& values);
Network restrict(const Network& network, const NumberedLists& values);

/// The same with other costs: by variable, and by pair of the network.
Network restrict(const Network& network, const NumberedLists& values,
                 const std::function<NumberedTable(int)>& of_variable,
                 const std::function<NumberedTable(size_t)>& of_pair);

}  // namespace hetsynth::synth
