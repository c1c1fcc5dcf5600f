// Which statements of a kernel decide where it writes.
#include <algorithm>

#include "verify/source/threads/threads.h"

namespace hetsynth::source {
namespace {

class Slicing {
 public:
  Slicing(const Function& kernel, Slice& slice) : parameters_(int(kernel.parameters.size())), slice_(slice) {}

  /// Until nothing is missing any more.
  void run(const Statement& body) {
    do {
      grown_ = false;
      visit(body, false);
    } while (grown_);
  }

 private:
  bool wanted(int slot) const { return slot >= parameters_ && slice_.relevant[size_t(slot)]; }

  void need(const Expression& e) {
    if (e.kind == Kind::variable && e.slot >= parameters_ && !slice_.relevant[size_t(e.slot)]) {
      slice_.relevant[size_t(e.slot)] = true;
      grown_ = true;
    }
    for (const Expression& arg : e.args) need(arg);
  }

  /// The variable or parameter that a pointer is based on.
  static int base(const Expression& e) {
    if (e.kind == Kind::variable) return e.slot;
    if (e.kind == Kind::element) return base(e.args[0]);
    for (const Expression& arg : e.args)
      if (is_pointer(arg.type)) return base(arg);
    return -1;
  }

  bool fills_list(const Expression& e) const {
    if (e.kind == Kind::call && e.name == "collect_hits" && e.args.size() == 2 && wanted(base(e.args[1]))) return true;
    return std::any_of(e.args.begin(), e.args.end(), [&](const Expression& arg) { return fills_list(arg); });
  }

  /// `in_kept`: in a loop that is kept, whose breaks decide how often it turns.
  bool visit(const Statement& s, bool in_kept) {
    bool keep = slice_.kept[size_t(s.number)];
    switch (s.kind) {
      case Statement::Kind::declare:
        keep = wanted(s.slot) || fills_list(s.value);
        if (keep) need(s.value);
        break;
      case Statement::Kind::assign: {
        const int to = base(s.target);
        const bool outside = to < parameters_ && s.target.kind == Kind::element;
        keep = outside || wanted(to);
        if (keep && s.target.kind == Kind::element) need(s.target.args[1]), need(s.target.args[0]);
        if (keep && !outside) need(s.value);
        break;
      }
      case Statement::Kind::call: {
        const bool moves = s.value.args.size() == 2;
        const int to = moves ? base(s.value.args[0]) : -1;
        const bool outside = moves && to >= 0 && to < parameters_;
        keep = outside || (to >= 0 && wanted(to));
        if (keep) need(s.value.args[0]);
        if (keep && !outside) need(s.value.args[1]);
        break;
      }
      case Statement::Kind::stop:
        keep = in_kept;
        break;
      case Statement::Kind::block:
      case Statement::Kind::branch:
      case Statement::Kind::loop: {
        const bool loops = s.kind == Statement::Kind::loop;
        for (const Statement& inner : s.body) keep = visit(inner, loops ? keep : in_kept) || keep;
        if (keep && s.kind == Statement::Kind::branch) need(s.value);
        if (keep && loops) need(s.value), need(s.limit), need(s.increment);
        break;
      }
      default:
        keep = true;
        break;
    }
    if (keep && !slice_.kept[size_t(s.number)]) {
      slice_.kept[size_t(s.number)] = true;
      grown_ = true;
    }
    return keep;
  }

  const int parameters_;
  Slice& slice_;
  bool grown_ = false;
};

int statements(const Statement& s) {
  int out = s.number + 1;
  for (const Statement& inner : s.body) out = std::max(out, statements(inner));
  return out;
}

}  // namespace

Slice::Slice(const Function& kernel)
    : kept(size_t(statements(kernel.body)), false), relevant(kernel.slots.size(), false) {
  Slicing(kernel, *this).run(kernel.body);
}

}  // namespace hetsynth::source
