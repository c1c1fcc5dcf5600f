// Follows the step function of a cpu rank statement by statement.
//
// Collectives that were begun and not yet ended run beside what follows: until they are waited for, nothing may read
// what they write, or write to what they read or write. With that in place, everything happens as if each were carried
// out where it is called.
#pragma once
#include <map>

#include "dsl/spmd/buckets.h"
#include "verify/source/step/arena_contents.h"
#include "verify/source/text/function_of.h"

namespace hetsynth::source {

class Walk final : public ContentsWalk {
 public:
  /// `bucket_of`: by instruction, the bucket of collectives that begin together, -1: it begins alone. `numbers`: by
  /// instruction, the one that the text calls it by; empty: its own. The arguments must outlive this.
  Walk(const Program& reference, const BucketedProgram& program, const RankSource& source, const SourceOptions& options,
       Unit& unit, std::vector<int> numbers = {})
      : ContentsWalk(reference, program.program, source, options, unit, std::move(numbers)),
        bucket_of_(program.bucket_of) {}

  void run() override;

 private:
  /// Collectives that were begun together.
  struct UnderWay {
    int64_t number = 0;
    size_t to_come = 0;  ///< members that are still to be called
    std::vector<Touched> accesses;
    int line = 0;
  };

  void declare(const Statement& s) override;
  void loop(const Statement& s) override;
  void turns(const Statement& s);
  void call(const Statement& s) override;
  void checked(const Expression& value, int line) override;

  void begin_collectives(const Expression& call);
  void end_collectives(const Expression& call);
  void called(const Expression& call);
  size_t members_of_next_bucket() const;
  std::vector<Touched> accesses_of(const Expression& call, const Instruction& i) const;
  /// Understands a piece of text. `points_to`: bytes that it was given to read.
  void follow_region(const std::shared_ptr<Region>& region, const std::vector<std::string>& names,
                     const std::vector<int64_t>& points_to, int line);
  void expect_free(const std::vector<Touched>& accesses, const std::string& what, int line) const;
  /// No members are still to be called.
  void expect_all_called(int line) const;

  const std::vector<int>& bucket_of_;
  std::vector<UnderWay> under_way_;
  std::map<const Statement*, FunctionOf> loops_;  ///< of the step, as functions
};

}  // namespace hetsynth::source
