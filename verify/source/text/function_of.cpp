#include "verify/source/text/function_of.h"

#include <map>
#include <set>

#include "verify/source/text/each.h"

namespace hetsynth::source {

FunctionOf function_of(const Statement& s, const Function& around, const std::string& name) {
  FunctionOf out;
  Function& function = out.function;
  function.name = name;
  function.body = s;
  function.defined = true;
  function.line = s.line;

  const auto declares = [](const Statement& inner) {
    return inner.kind == Statement::Kind::declare || inner.kind == Statement::Kind::loop;
  };
  std::set<int> declared;
  each_statement(s, [&](const Statement& inner) {
    if (declares(inner)) declared.insert(inner.slot);
  });
  std::map<int, int> slots;  // by slot of the function around
  const auto slot_of = [&](int slot) {
    const auto [found, fresh] = slots.try_emplace(slot, int(function.slots.size()));
    if (fresh) function.slots.push_back(around.slots[size_t(slot)]);
    return found->second;
  };
  // Parameters have the first slots.
  each_statement(s, [&](const Statement& inner) {
    each_expression_of(inner, [&](const Expression& e) {
      if (e.kind != Kind::variable || declared.count(e.slot) || slots.count(e.slot)) return;
      slot_of(e.slot);
      out.arguments.push_back(e.slot);
      function.parameters.push_back({around.slots[size_t(e.slot)], e.type, true});
    });
  });
  each_statement(function.body, [&](Statement& inner) {
    if (declares(inner)) inner.slot = slot_of(inner.slot);
    each_expression_of(inner, [&](Expression& e) {
      if (e.kind == Kind::variable) e.slot = slot_of(e.slot);
    });
  });
  return out;
}

}  // namespace hetsynth::source
