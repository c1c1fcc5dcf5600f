// The one door to the SMT solver: terms, implications, time limits. No type of the solver's own stands here.
#pragma once
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace hetsynth::smt {

/// A term of one Solver; an index, cheap to copy.
struct Term {
  int id = -1;
};

enum class Answer {
  proved,     ///< the negated goal is unsatisfiable and the premises alone are satisfiable
  disproved,  ///< a model of the premises violates the goal
  unknown,    ///< the solver gave up or ran into a limit
  vacuous,    ///< the premises contradict each other: nothing was proved
};

using Clock = std::chrono::steady_clock;

/// Terms and proofs over linear integer arithmetic, real arithmetic and uninterpreted functions. Not thread-safe;
/// interrupted from inside at the limits.
class Solver {
 public:
  /// Proofs end with Answer::unknown at `deadline`.
  explicit Solver(Clock::time_point deadline);
  ~Solver();
  Solver(const Solver&) = delete;
  Solver& operator=(const Solver&) = delete;

  Term integer(int64_t value);
  /// The exact rational of a double; an unnamed constant of its own for infinities and NaN.
  Term real(double value);
  Term boolean(bool value);
  Term integer_symbol(const std::string& name);
  Term real_symbol(const std::string& name);
  /// An uninterpreted function with a real result. The name, with the sorts of the arguments, is its identity.
  Term apply(const std::string& function, const std::vector<Term>& arguments);

  Term add(Term a, Term b);
  Term sub(Term a, Term b);
  Term mul(Term a, Term b);
  Term negative(Term a);
  /// Quotient and remainder of an integer by a positive constant.
  Term quotient(Term a, int64_t divisor);
  Term remainder(Term a, int64_t divisor);
  Term less(Term a, Term b);
  Term less_equal(Term a, Term b);
  Term equal(Term a, Term b);
  Term negation(Term a);
  Term implies(Term a, Term b);
  Term all(const std::vector<Term>& terms);
  Term any(const std::vector<Term>& terms);
  Term choose(Term condition, Term if_true, Term if_false);
  /// The same term with products of sums multiplied out.
  Term expanded(Term a);

  /// Do the premises imply the goal? The premises are checked alone first.
  Answer prove(const std::vector<Term>& premises, Term goal);
  /// The same for SMT-LIB text: declarations and premises, then assertions that negate the goal. Throws InternalError
  /// if it does not parse.
  Answer prove_text(const std::string& premises, const std::string& negated_goal);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// "Z3 4.8.12".
std::string solver_version();

}  // namespace hetsynth::smt
