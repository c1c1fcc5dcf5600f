// Executes a kernel for threads of one block together, statement by statement: every expression is worth one number per
// thread. Threads part at conditions and loops of different lengths, and meet again behind them.
#pragma once
#include <functional>
#include <memory>
#include <vector>

#include "dsl/ir/type.h"
#include "verify/source/execute/decisions.h"
#include "verify/source/execute/outline.h"
#include "verify/source/text/library.h"
#include "verify/source/text/syntax.h"

namespace hetsynth::source {

/// A kernel with all that its launch says.
struct Launch {
  const Function* kernel = nullptr;
  int64_t blocks = 0, threads = 0;
  std::vector<int64_t> arguments;  ///< by parameter: byte of the arena; 0 for the clock
};

/// The threads of a block that execute something at the moment, in increasing order.
struct Lanes {
  const int* thread = nullptr;
  int count = 0;
};

/// How far the threads of a kernel depend on each other.
enum class Meets : uint8_t { nobody, warp, block };
Meets meets(const Statement& body);

/// The part of a kernel that its addresses depend on: all else may be left out to find what it writes.
struct Slice {
  std::vector<bool> kept;      ///< by number of the statement
  std::vector<bool> relevant;  ///< by slot of the variable
  explicit Slice(const Function& kernel);
};

class ThreadBlock {
 public:
  /// Memory outside of the block. Numbers of `lanes`, one after the other.
  class Outside {
   public:
    virtual ~Outside() = default;
    virtual void load(DType dtype, const int64_t* bytes, Lanes lanes, double* out, int line) = 0;
    /// `values` is null where only a slice is executed.
    virtual void store(int parameter, DType dtype, const int64_t* bytes, Lanes lanes, const double* values,
                       int line) = 0;
    /// Where decisions are noted, of each thread; null: nowhere.
    virtual Decisions* decisions() { return nullptr; }
    /// Whether a conversion to 16 bits rounds.
    virtual bool rounds() const { return true; }
    /// The number of the step.
    virtual int64_t step() const { return 0; }
  };

  /// `slice` null: everything is executed. `work` counts numbers that expressions were worth.
  ThreadBlock(const Launch& launch, int64_t block, const Slice* slice, Outside& outside, int64_t& work, int64_t limit);

  /// Throws NotFollowed, Misstep, TooLong.
  void run(const std::vector<int>& threads);

 private:
  struct Array {
    int64_t elements = 0;
    bool shared = false;
    std::vector<double> values;  ///< by element; of one thread: by element and thread
    // Of shared ones, by element: who last wrote and read it, and between which barriers. Readers may be several: -2.
    std::vector<int> writer, reader;
    std::vector<uint32_t> written, read;
  };
  /// Where a pointer of every thread points to.
  struct Place {
    int array = -1;             ///< slot
    int parameter = -1;         ///< slot
    int64_t* offset = nullptr;  ///< elements
  };
  /// Gives numbers that were taken meanwhile back.
  class Numbers {
   public:
    explicit Numbers(ThreadBlock& of) : of_(of), page_(of.page_), used_(of.used_) {}
    ~Numbers() { of_.page_ = page_, of_.used_ = used_; }

   private:
    ThreadBlock& of_;
    size_t page_, used_;
  };

  void execute(const Statement& s, Lanes lanes);
  void block(const Statement& s, Lanes lanes);
  void declare(const Statement& s, Lanes lanes);
  void assign(const Statement& s, Lanes lanes);
  void assign_element(const Statement& s, Lanes lanes);
  template <class T>
  void assign_variable(const Statement& s, Lanes lanes, std::vector<T>& variable);
  void branch(const Statement& s, Lanes lanes);
  void loop(const Statement& s, Lanes lanes);
  void call(const Expression& e, Lanes lanes);
  void barrier(Lanes lanes, int line);
  // fragments.cpp
  static int moved_by(const Expression& call);
  void move(const Expression& e, Lanes lanes);
  void expect_warps(Lanes lanes, int line) const;
  void load_fragment(const Expression& e, Lanes lanes);
  void multiply_fragments(const Expression& e, Lanes lanes);
  bool kept(const Statement& s) const { return !slice_ || slice_->kept[size_t(s.number)]; }

  void integer(const Expression& e, Lanes lanes, int64_t* out);
  void compare(const Expression& e, Lanes lanes, int64_t* out);
  /// Evaluates a condition.
  void decide(const Expression& condition, Lanes lanes, int64_t* out);
  void logical(const Expression& e, Lanes lanes, int64_t* out);
  void collect_hits(const Expression& e, Lanes lanes, int64_t* out);
  void real(const Expression& e, Lanes lanes, double* out);
  void real_call(const Expression& e, Lanes lanes, double* out);
  void combined(const Helper& function, Lanes lanes, double* values, int line);
  void evaluate(const Expression& e, Lanes lanes, int64_t* out) { integer(e, lanes, out); }
  void evaluate(const Expression& e, Lanes lanes, double* out) { real(e, lanes, out); }
  template <class T, class Operator>
  void combine(const Expression& e, Lanes lanes, T* out, Operator operation);
  template <class T>
  void choose(const Expression& e, Lanes lanes, T* out);

  Place place(const Expression& e, Lanes lanes);
  /// Of args[0][args[1]].
  Place element_place(const Expression& e, Lanes lanes);
  void load(const Expression& e, Lanes lanes, double* out);
  void load_at(const Place& from, Type pointer, int64_t further, Lanes lanes, double* out, int line);
  void store_at(const Place& to, Type pointer, int64_t further, Lanes lanes, const double* values, int line);
  void expect_aligned(const Place& at, Type pointer, int elements, Lanes lanes, int line) const;
  double& cell(Array& array, int64_t at, int thread, bool writes, int line);
  Type pointed(const Place& at, Type pointer) const;

  int64_t* integers(int count);
  double* reals(int count);
  template <class T>
  T* numbers(int count) {
    if constexpr (std::is_same_v<T, double>)
      return reals(count);
    else
      return integers(count);
  }
  void count(int64_t lanes, int line);

  const Launch& launch_;
  const Function& kernel_;
  int64_t block_;
  const Slice* slice_;
  Outside& outside_;
  int64_t& work_;
  int64_t limit_;
  int threads_;
  int executing_ = 0;                           ///< threads that `run` was asked for
  std::vector<std::vector<int64_t>> integers_;  ///< variables, by slot and thread
  std::vector<std::vector<double>> reals_;
  std::vector<Array> arrays_;     ///< by slot
  std::vector<uint8_t> stopped_;  ///< by thread: it has left the innermost loop
  bool any_stopped_ = false;
  uint32_t moment_ = 1;  ///< barriers so far
  // A stack of numbers for expressions.
  std::vector<std::unique_ptr<double[]>> pages_;
  size_t page_ = 0, used_ = 0;
};

}  // namespace hetsynth::source
