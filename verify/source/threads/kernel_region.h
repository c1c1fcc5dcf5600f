// A launch of a cuda kernel as a region. Which thread writes which bytes is found by executing, for every thread of
// every block, the part of the kernel that its addresses depend on; what value an element gets, by executing the
// threads that it depends on in full (threads.h).
#pragma once
#include <map>
#include <memory>
#include <tuple>
#include <unordered_map>

#include "verify/source/execute/memory.h"
#include "verify/source/execute/region.h"
#include "verify/source/threads/threads.h"

namespace hetsynth::source {

/// What a kernel writes when it is launched with so many blocks of so many threads, wherever its arguments lie.
struct Coverage {
  struct Piece {
    int parameter = -1;
    int64_t begin = 0, end = 0;  ///< bytes from the argument
    int64_t block = 0;
    int line = 0;
  };
  std::vector<Piece> pieces;  ///< disjoint, by parameter and begin
};

/// Coverages and slices of a rank's kernels, for launches of the same kernel.
class KnownKernels {
 public:
  const Slice& slice(const Function& kernel);
  /// Throws NotFollowed, Misstep, TooLong.
  const Coverage& coverage(const Launch& launch, int64_t& work, int64_t limit);

 private:
  std::map<const Function*, Slice> slices_;
  std::map<std::tuple<const Function*, int64_t, int64_t>, Coverage> coverages_;
};

class KernelRegion final : public Region {
 public:
  /// Throws NotFollowed, Misstep, TooLong.
  KernelRegion(Launch launch, KnownKernels& known, const Memory& memory, int64_t limit);

  const std::string& function_name() const override { return launch_.kernel->name; }
  std::set<int64_t> numbers() const override { return integers_of(launch_.kernel->body); }
  bool decides() const override { return has_conditions(launch_.kernel->body); }
  const std::vector<Written>& written() const override { return written_; }
  std::vector<double> values(const Written& block, const std::vector<int64_t>& elements) override;
  std::vector<std::pair<int64_t, double>> hits(const Written&, size_t) override { return {}; }

 private:
  class Contents;
  void find_blocks();
  void find_ends();
  const Coverage::Piece& piece_of(int64_t byte, const Written& block) const;
  void look_up_writers(int64_t block);
  double value(const Written& block, int64_t byte);

  Launch launch_;
  KnownKernels& known_;
  const Memory& memory_;
  const Coverage& coverage_;
  Meets meets_;
  std::vector<Written> written_;
  int64_t block_ = -1;                         ///< whose writers are known
  std::unordered_map<int64_t, int> writers_;   ///< by byte: thread of that block
  uint64_t moment_ = 0;                        ///< of memory, at which these were found:
  std::unordered_map<int64_t, double> found_;  ///< by byte
};

}  // namespace hetsynth::source
