#include "verify/solver/solver.h"

#include <fmt/format.h>
#include <z3++.h>

#include <cmath>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "dsl/base/error.h"

namespace hetsynth::smt {

/// Interrupts the context once a query runs past its deadline: the solver's own time limit is not always obeyed. An
/// interrupt that arrives just before the solver listens is lost, hence the repetition.
class Watchdog {
 public:
  explicit Watchdog(z3::context& context) : context_(context), thread_([this] { run(); }) {}
  ~Watchdog() {
    {
      std::lock_guard lock(mutex_);
      stop_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }
  void arm(Clock::time_point deadline) {
    {
      std::lock_guard lock(mutex_);
      deadline_ = deadline;
      armed_ = true;
    }
    changed_.notify_all();
  }
  void disarm() {
    std::lock_guard lock(mutex_);
    armed_ = false;
  }

 private:
  void run() {
    std::unique_lock lock(mutex_);
    while (!stop_) {
      if (!armed_) {
        changed_.wait(lock, [this] { return stop_ || armed_; });
      } else if (Clock::now() < deadline_) {
        changed_.wait_until(lock, deadline_);
      } else {
        context_.interrupt();
        changed_.wait_for(lock, std::chrono::milliseconds(20));
      }
    }
  }

  z3::context& context_;
  std::mutex mutex_;
  std::condition_variable changed_;
  Clock::time_point deadline_;
  bool armed_ = false;
  bool stop_ = false;
  std::thread thread_;
};

namespace {

/// Work of one query, in the solver's own deterministic count; far above what any obligation needs (below 100,000).
constexpr unsigned resource_limit = 20'000'000;

/// All digits of the double, or empty if it takes more than these.
std::string exact_decimal(double value) {
  constexpr int digits = 400;
  if (value != 0 && std::abs(value) < 0x1p-340) return "";
  std::string text = fmt::format("{:.{}f}", value, digits);
  text.erase(text.find_last_not_of('0') + 1);
  if (text.back() == '.') text.pop_back();
  return text;
}

}  // namespace

struct Solver::State {
  z3::context context;
  std::vector<z3::expr> terms;
  Clock::time_point deadline;
  Watchdog watchdog{context};

  const z3::expr& at(Term t) const { return terms.at(size_t(t.id)); }
  Term keep(const z3::expr& e) {
    terms.push_back(e);
    return Term{int(terms.size()) - 1};
  }

  z3::solver fresh() {
    z3::solver solver(context, z3::solver::simple());
    z3::params parameters(context);
    parameters.set("rlimit", resource_limit);
    solver.set(parameters);
    return solver;
  }

  z3::check_result check(z3::solver& solver) {
    if (Clock::now() >= deadline) return z3::unknown;
    watchdog.arm(deadline);
    z3::check_result result = z3::unknown;
    try {
      result = solver.check();
    } catch (const z3::exception&) {
      result = z3::unknown;  // interrupted
    }
    watchdog.disarm();
    return result;
  }

  template <typename AddPremises, typename AddNegatedGoal>
  Answer decide(AddPremises&& premises, AddNegatedGoal&& negated_goal) {
    z3::solver solver = fresh();
    premises(solver);
    z3::check_result alone = check(solver);
    if (alone == z3::unsat) return Answer::vacuous;
    negated_goal(solver);
    z3::check_result result = check(solver);
    if (result == z3::sat) return Answer::disproved;
    return result == z3::unsat && alone == z3::sat ? Answer::proved : Answer::unknown;
  }
};

Solver::Solver(Clock::time_point deadline) : state_(std::make_unique<State>()) { state_->deadline = deadline; }
Solver::~Solver() = default;

Term Solver::integer(int64_t value) { return state_->keep(state_->context.int_val(value)); }

Term Solver::real(double value) {
  std::string digits = std::isfinite(value) ? exact_decimal(value) : "";
  if (digits.empty()) return real_symbol(fmt::format("constant {}", value));
  return state_->keep(state_->context.real_val(digits.c_str()));
}

Term Solver::boolean(bool value) { return state_->keep(state_->context.bool_val(value)); }
Term Solver::integer_symbol(const std::string& name) { return state_->keep(state_->context.int_const(name.c_str())); }
Term Solver::real_symbol(const std::string& name) { return state_->keep(state_->context.real_const(name.c_str())); }

Term Solver::apply(const std::string& function, const std::vector<Term>& arguments) {
  z3::sort_vector sorts(state_->context);
  z3::expr_vector values(state_->context);
  std::string sorted_name = function + ":";
  for (Term t : arguments) {
    const z3::expr& e = state_->at(t);
    sorts.push_back(e.get_sort());
    values.push_back(e);
    sorted_name += e.is_int() ? 'i' : 'r';
  }
  if (arguments.empty()) return real_symbol(sorted_name);
  return state_->keep(state_->context.function(sorted_name.c_str(), sorts, state_->context.real_sort())(values));
}

Term Solver::add(Term a, Term b) { return state_->keep(state_->at(a) + state_->at(b)); }
Term Solver::sub(Term a, Term b) { return state_->keep(state_->at(a) - state_->at(b)); }
Term Solver::mul(Term a, Term b) { return state_->keep(state_->at(a) * state_->at(b)); }
Term Solver::negative(Term a) { return state_->keep(-state_->at(a)); }

Term Solver::quotient(Term a, int64_t divisor) {
  return state_->keep(state_->at(a) / state_->context.int_val(divisor));
}
Term Solver::remainder(Term a, int64_t divisor) {
  return state_->keep(z3::mod(state_->at(a), state_->context.int_val(divisor)));
}

Term Solver::less(Term a, Term b) { return state_->keep(state_->at(a) < state_->at(b)); }
Term Solver::less_equal(Term a, Term b) { return state_->keep(state_->at(a) <= state_->at(b)); }
Term Solver::equal(Term a, Term b) { return state_->keep(state_->at(a) == state_->at(b)); }
Term Solver::negation(Term a) { return state_->keep(!state_->at(a)); }
Term Solver::implies(Term a, Term b) { return state_->keep(z3::implies(state_->at(a), state_->at(b))); }

Term Solver::all(const std::vector<Term>& terms) {
  z3::expr_vector parts(state_->context);
  for (Term t : terms) parts.push_back(state_->at(t));
  return state_->keep(z3::mk_and(parts));
}

Term Solver::any(const std::vector<Term>& terms) {
  z3::expr_vector parts(state_->context);
  for (Term t : terms) parts.push_back(state_->at(t));
  return state_->keep(z3::mk_or(parts));
}

Term Solver::choose(Term condition, Term if_true, Term if_false) {
  return state_->keep(z3::ite(state_->at(condition), state_->at(if_true), state_->at(if_false)));
}

Term Solver::expanded(Term a) {
  z3::params parameters(state_->context);
  parameters.set("som", true);
  return state_->keep(state_->at(a).simplify(parameters));
}

Answer Solver::prove(const std::vector<Term>& premises, Term goal) {
  return state_->decide(
      [&](z3::solver& solver) {
        for (Term t : premises) solver.add(state_->at(t));
      },
      [&](z3::solver& solver) { solver.add(!state_->at(goal)); });
}

Answer Solver::prove_text(const std::string& premises, const std::string& negated_goal) {
  auto assertions = [&](const std::string& text) {
    try {
      return state_->context.parse_string(text.c_str());
    } catch (const z3::exception& error) {
      throw InternalError(fmt::format("SMT-LIB text does not parse: {}", error.msg()));
    }
  };
  z3::expr_vector given = assertions(premises), all_of_it = assertions(premises + negated_goal);
  auto add = [](z3::solver& solver, const z3::expr_vector& parts, unsigned from) {
    for (unsigned i = from; i < parts.size(); ++i) solver.add(parts[int(i)]);
  };
  return state_->decide([&](z3::solver& solver) { add(solver, given, 0); },
                        [&](z3::solver& solver) { add(solver, all_of_it, given.size()); });
}

std::string solver_version() {
  unsigned major = 0, minor = 0, build = 0, revision = 0;
  Z3_get_version(&major, &minor, &build, &revision);
  return fmt::format("Z3 {}.{}.{}", major, minor, build);
}

}  // namespace hetsynth::smt
