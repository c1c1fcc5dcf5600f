#include "verify/source/text/function_of.h"

#include <map>
#include <set>

namespace hetsynth::source {
namespace {

class Renaming {
 public:
  Renaming(const Function& around, FunctionOf& out) : around_(around), out_(out) {}

  void note_declared(const Statement& s) {
    if (s.kind == Statement::Kind::declare || s.kind == Statement::Kind::loop) declared_.insert(s.slot);
    for (const Statement& inner : s.body) note_declared(inner);
  }

  /// Variables of the step, which become parameters, before those that the statement declares.
  void note_parameters(const Statement& s) {
    each_expression(s, [&](const Expression& e) {
      if (e.kind != Kind::variable || declared_.count(e.slot) || renamed_.count(e.slot)) return;
      renamed_[e.slot] = int(out_.arguments.size());
      out_.arguments.push_back(e.slot);
      out_.function.parameters.push_back({around_.slots[size_t(e.slot)], e.type, true});
      out_.function.slots.push_back(around_.slots[size_t(e.slot)]);
    });
  }

  void rename(Statement& s) {
    if (s.kind == Statement::Kind::declare || s.kind == Statement::Kind::loop) s.slot = new_slot(s.slot);
    for (Expression* e : {&s.target, &s.value, &s.limit, &s.increment}) rename(*e);
    for (Expression& e : s.list) rename(e);
    for (Statement& inner : s.body) rename(inner);
  }

 private:
  template <class Visit>
  static void each_expression(const Expression& e, const Visit& visit) {
    visit(e);
    for (const Expression& arg : e.args) each_expression(arg, visit);
  }
  template <class Visit>
  static void each_expression(const Statement& s, const Visit& visit) {
    for (const Expression* e : {&s.target, &s.value, &s.limit, &s.increment}) each_expression(*e, visit);
    for (const Expression& e : s.list) each_expression(e, visit);
    for (const Statement& inner : s.body) each_expression(inner, visit);
  }

  int new_slot(int slot) {
    const auto [found, fresh] = renamed_.try_emplace(slot, int(out_.function.slots.size()));
    if (fresh) out_.function.slots.push_back(around_.slots[size_t(slot)]);
    return found->second;
  }

  void rename(Expression& e) {
    if (e.kind == Kind::variable) e.slot = new_slot(e.slot);
    for (Expression& arg : e.args) rename(arg);
  }

  const Function& around_;
  FunctionOf& out_;
  std::set<int> declared_;
  std::map<int, int> renamed_;
};

}  // namespace

FunctionOf function_of(const Statement& s, const Function& around, const std::string& name) {
  FunctionOf out;
  out.function.name = name;
  out.function.body = s;
  out.function.defined = true;
  out.function.line = s.line;
  Renaming renaming(around, out);
  renaming.note_declared(s);
  renaming.note_parameters(s);
  renaming.rename(out.function.body);
  return out;
}

}  // namespace hetsynth::source
