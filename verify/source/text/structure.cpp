#include "verify/source/text/structure.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "verify/source/text/library.h"

namespace hetsynth::source {
namespace {

class Writer {
 public:
  explicit Writer(std::vector<int64_t>& streams) : streams_(streams) {}

  template <class... Numbers>
  void put(char sign, Numbers... numbers) {
    out += sign;
    (fmt::format_to(std::back_inserter(out), "{} ", int64_t(numbers)), ...);
  }
  void put(const Statement& s) {
    put('s', s.kind, s.type, s.slot, s.elements, s.zeroed, s.shared, s.has_value, s.accumulates, s.step, s.list.size(),
        s.body.size());
    for (const Expression& e : s.list) put(e);
    for (const Expression* e : {&s.target, &s.value, &s.limit, &s.increment}) put(*e);
    for (const Statement& inner : s.body) put(inner);
  }

  std::string out;

 private:
  void put(const Expression& e) {
    put('e', e.kind, e.type, e.narrow, e.integer_value, e.slot, e.args.size());
    // A number as it is, all digits of it.
    if (e.real_value != 0) fmt::format_to(std::back_inserter(out), "{:a} ", e.real_value);
    // Names of variables tell nothing that their slots do not.
    if (e.kind != Kind::variable) out += e.name + ";";
    const bool draws = e.kind == Kind::call && helper(e.name).builtin == Builtin::uniform;
    for (size_t i = 0; i < e.args.size(); ++i)
      if (draws && i == 1 && e.args[i].kind == Kind::integer)
        put('r', number_of(e.args[i].integer_value));
      else
        put(e.args[i]);
  }
  int64_t number_of(int64_t stream) {
    auto found = std::find(streams_.begin(), streams_.end(), stream);
    if (found == streams_.end()) found = streams_.insert(streams_.end(), stream);
    return found - streams_.begin();
  }

  std::vector<int64_t>& streams_;
};

}  // namespace

std::string structure_of(const Function& function, std::vector<int64_t>& streams) {
  Writer writer(streams);
  for (const Parameter& parameter : function.parameters) writer.put('p', parameter.type, parameter.writable);
  writer.put(function.body);
  return writer.out;
}

}  // namespace hetsynth::source
