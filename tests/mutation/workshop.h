// What the kinds of mutants are made with: one file per family of kinds.
#pragma once
#include <random>
#include <set>
#include <string>
#include <vector>

#include "tests/mutation/mutants.h"

namespace hetsynth::mutation {

inline bool moves(const Instruction& i) { return i.opcode != Opcode::compute; }

/// One plan on its way to mutants.
class Workshop {
 public:
  using Take = std::function<bool(Mutant)>;
  Workshop(const Program& reference, const SpmdProgram& plan, const Take& take, const Places& places)
      : r_(reference), p_(plan), take_(take), places_(places), random_(places.seed) {}

  const Program& r_;
  const SpmdProgram& p_;

  /// The next mutants are of this kind.
  void begin(const std::string& kind) { kind_ = kind, given_ = 0; }
  /// Nothing more is wanted of this kind, or of any.
  bool done() const { return stopped_ || given_ >= places_.per_kind; }
  bool stopped() const { return stopped_; }

  /// Hands a changed plan on, what it says of its values brought into line.
  void give(const std::string& place, SpmdProgram plan) { hand_on(place, std::move(plan), false, true); }
  /// The same, with the words on its values as they are.
  void give_as_it_is(const std::string& place, SpmdProgram plan) { hand_on(place, std::move(plan), false, false); }
  /// The same for a change that leaves the plan right.
  void give_equal(const std::string& place, SpmdProgram plan) { hand_on(place, std::move(plan), true, true); }

  std::string name(ValueId v) const { return r_[p_.values[size_t(v)].node].name; }

  /// 0 ... count - 1 in the order in which places are to be tried.
  std::vector<size_t> order(size_t count);

  /// Every instruction of these opcodes, until enough mutants were given.
  template <class Visit>
  void each(const std::set<Opcode>& opcodes, Visit visit) {
    for (size_t at : order(p_.instructions.size())) {
      if (done()) return;
      if (opcodes.count(p_.instructions[at].opcode)) visit(at, p_.instructions[at]);
    }
  }

  /// Inserts an instruction behind another; readers of its operand behind it, finals and loss read its result instead.
  static ValueId insert(SpmdProgram& plan, size_t behind, Instruction i, Placements placements);
  /// Takes an instruction out; its readers read its operand.
  static void drop(SpmdProgram& plan, size_t at);
  /// A table of the same axis and extent that cuts elsewhere; -1 if there is no other way to cut.
  static int other_table(SpmdProgram& plan, int table);

 private:
  void hand_on(const std::string& place, SpmdProgram plan, bool equal, bool reclaimed);
  /// What the rules say of every result, as far as they say anything.
  void reclaim(SpmdProgram& plan) const;

  const Take& take_;
  Places places_;
  std::mt19937_64 random_;
  std::string kind_;
  int given_ = 0;
  bool stopped_ = false;
};

/// The instruction is left out.
template <Opcode opcode>
void dropped(Workshop& w) {
  w.each({opcode}, [&](size_t at, const Instruction& i) {
    SpmdProgram plan = w.p_;
    Workshop::drop(plan, at);
    w.give(w.name(i.result), plan);
  });
}

struct Kind {
  const char* name;
  void (*apply)(Workshop&);
};

const std::vector<Kind>& wrong_movements();     ///< missing, of another kind, table, axis, dimension or reduction
const std::vector<Kind>& wrong_computations();  ///< other operands, splits or nodes
const std::vector<Kind>& wrong_structure();     ///< tables, updates, order and words: what holds a plan together
const std::vector<Kind>& wrong_stages();        ///< pipeline stages, and tables that differ between groups
const std::vector<Kind>& wrong_halos();         ///< missing, too short; and wider than is read, which is right
const std::vector<Kind>& rewrites();            ///< changes that leave a plan right

}  // namespace hetsynth::mutation
