// Tables, updates, order and claims: what holds a plan together.
#include <algorithm>

#include "tests/mutation/workshop.h"

namespace hetsynth::mutation {
namespace {

void gap(Workshop& w) {
  for (size_t t : w.order(w.p_.tables.size())) {
    if (w.done()) return;
    SpmdProgram plan = w.p_;
    (plan.tables[t].by < 0 ? plan.tables[t].bounds : plan.tables[t].rows[0]).back() -= 1;
    w.give(plan.tables[t].name, plan);
  }
}

void overlap(Workshop& w) {
  for (size_t t : w.order(w.p_.tables.size())) {
    for (size_t b = 1; b + 1 < w.p_.tables[t].bounds.size() && !w.done(); ++b) {
      SpmdProgram plan = w.p_;
      if (plan.tables[t].bounds[b] == plan.tables[t].bounds[b + 1]) continue;
      plan.tables[t].bounds[b] = plan.tables[t].bounds[b + 1] + 1;
      w.give(plan.tables[t].name, plan);
    }
  }
}

/// The new contents of a parameter where the step still needs the old ones: its update moves before the reader.
void updated_too_early(Workshop& w) {
  for (const auto& [target, value] : w.p_.finals) {
    ValueId leaf = -1;
    for (ValueId l : w.p_.leaves)
      if (w.p_.values[size_t(l)].node == target) leaf = l;
    size_t last = 0;
    for (size_t at = 0; at < w.p_.instructions.size(); ++at)
      if (w.p_.instructions[at].result == value) last = at;
    // A reader behind the update, or after all.
    for (size_t at = 0; at < w.p_.instructions.size(); ++at) {
      const Instruction& i = w.p_.instructions[at];
      auto reads = std::find(i.operands.begin(), i.operands.end(), leaf);
      if (reads == i.operands.end() || at < last || i.result == value) continue;
      SpmdProgram plan = w.p_;
      plan.instructions[at].operands[size_t(reads - i.operands.begin())] = value;
      w.give(w.name(i.result), plan);
    }
  }
}

void used_before_defined(Workshop& w) {
  for (size_t at : w.order(w.p_.instructions.size() - 1)) {
    if (w.done()) return;
    const Instruction& next = w.p_.instructions[at + 1];
    ValueId made = w.p_.instructions[at].result;
    if (!std::count(next.operands.begin(), next.operands.end(), made)) continue;
    SpmdProgram plan = w.p_;
    std::swap(plan.instructions[at], plan.instructions[at + 1]);
    w.give(w.name(made), plan);
  }
}

/// Not even its readers are told.
void instruction_missing(Workshop& w) {
  w.each({Opcode::compute, Opcode::all_reduce, Opcode::all_gather}, [&](size_t at, const Instruction& i) {
    SpmdProgram plan = w.p_;
    plan.instructions.erase(plan.instructions.begin() + long(at));
    w.give(w.name(i.result), plan);
  });
}

/// Calls visit(number in finals, name of the updated tensor).
template <class Visit>
void each_final(Workshop& w, Visit visit) {
  for (size_t f : w.order(w.p_.finals.size())) {
    if (w.done()) return;
    visit(f, w.r_[w.p_.finals[f].first].name);
  }
}

void update_forgotten(Workshop& w) {
  each_final(w, [&](size_t f, const std::string& tensor) {
    SpmdProgram plan = w.p_;
    plan.finals.erase(plan.finals.begin() + long(f));
    w.give(tensor, plan);
  });
}

void updates_exchanged(Workshop& w) {
  each_final(w, [&](size_t f, const std::string& tensor) {
    for (size_t g = f + 1; g < w.p_.finals.size(); ++g) {
      if (!(w.r_[w.p_.finals[f].first].type == w.r_[w.p_.finals[g].first].type)) continue;
      SpmdProgram plan = w.p_;
      std::swap(plan.finals[f].second, plan.finals[g].second);
      return w.give(tensor, plan);
    }
  });
}

void update_is_old(Workshop& w) {
  each_final(w, [&](size_t f, const std::string& tensor) {
    for (ValueId leaf : w.p_.leaves) {
      if (w.p_.values[size_t(leaf)].node != w.p_.finals[f].first) continue;
      SpmdProgram plan = w.p_;
      plan.finals[f].second = leaf;
      w.give(tensor, plan);
    }
  });
}

void update_not_gathered(Workshop& w) {
  each_final(w, [&](size_t f, const std::string& tensor) {
    for (const Instruction& i : w.p_.instructions) {
      if (i.result != w.p_.finals[f].second || !moves(i)) continue;
      SpmdProgram plan = w.p_;
      plan.finals[f].second = i.operands[0];
      w.give(tensor, plan);
    }
  });
}

void local_loss(Workshop& w) {
  for (const Instruction& i : w.p_.instructions) {
    if (i.result != w.p_.loss || !moves(i)) continue;
    SpmdProgram plan = w.p_;
    plan.loss = i.operands[0];
    w.give(w.name(i.result), plan);
  }
}

/// Calls change(plan, placement) for what the plan says of every value that is not whole; true: it changed something.
template <class Change>
void each_word(Workshop& w, Change change) {
  for (size_t v : w.order(w.p_.values.size()))
    for (size_t a = 0; a < w.p_.mesh.axes.size() && !w.done(); ++a) {
      if (w.p_.mesh.axes[a].size == 1 || w.p_.values[v].placements[a].kind == Placement::Kind::replicated) continue;
      SpmdProgram plan = w.p_;
      if (change(plan, plan.values[v].placements[a])) w.give_as_it_is(w.p_.values[v].name, plan);
    }
}

void wrong_word(Workshop& w) {
  each_word(w, [](SpmdProgram&, Placement& p) {
    p = Placement::replicated();
    return true;
  });
}

void word_names_another_table(Workshop& w) {
  each_word(w, [](SpmdProgram& plan, Placement& p) {
    if (p.kind != Placement::Kind::sharded) return false;
    int other = Workshop::other_table(plan, p.table);
    if (other >= 0) p.table = other;
    return other >= 0;
  });
}

void word_names_another_tensor(Workshop& w) {
  for (size_t v : w.order(w.p_.values.size())) {
    if (w.done()) return;
    for (const Node& other : w.r_.nodes) {
      if (other.leaf() || other.id == w.p_.values[v].node || !(other.type == w.r_[w.p_.values[v].node].type)) continue;
      SpmdProgram plan = w.p_;
      plan.values[v].node = other.id;
      w.give_as_it_is(w.p_.values[v].name, plan);
      break;
    }
  }
}

void defined_twice(Workshop& w) {
  w.each({Opcode::compute, Opcode::all_reduce}, [&](size_t at, const Instruction& i) {
    SpmdProgram plan = w.p_;
    plan.instructions.insert(plan.instructions.begin() + long(at), i);
    w.give(w.name(i.result), plan);
  });
}

void ranks_permuted(Workshop& w) {
  for (size_t a = 0; a + 1 < w.p_.mesh.axes.size(); ++a) {
    SpmdProgram plan = w.p_;
    if (plan.mesh.axes[a].size == plan.mesh.axes[a + 1].size) continue;
    std::swap(plan.mesh.axes[a].size, plan.mesh.axes[a + 1].size);
    w.give(plan.mesh.axes[a].name, plan);
  }
}

}  // namespace

const std::vector<Kind>& wrong_structure() {
  static const std::vector<Kind> kinds = {
      {"gap in a table", gap},
      {"overlap in a table", overlap},
      {"updated too early", updated_too_early},
      {"used before defined", used_before_defined},
      {"instruction missing", instruction_missing},
      {"update forgotten", update_forgotten},
      {"updates exchanged", updates_exchanged},
      {"update is the old value", update_is_old},
      {"update not gathered", update_not_gathered},
      {"local loss", local_loss},
      {"wrong word on a value", wrong_word},
      {"word names another table", word_names_another_table},
      {"word names another tensor", word_names_another_tensor},
      {"defined twice", defined_twice},
      {"ranks permuted", ranks_permuted},
  };
  return kinds;
}

}  // namespace hetsynth::mutation
