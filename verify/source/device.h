// Follows the host program of a cuda rank: what it issues to its two streams, in which order and on which bytes.
//
// Held against the SPMD program: the collectives in its order (in that of gather_buckets, those of a bucket in one
// group, where the program says so), each as NCCL calls over the right communicator with the right counts, pieces,
// type, reduction and root; and that no two accesses to the same bytes on different streams, one of them writing, are
// without an event between them. What kernels compute is not followed, and of the bytes that a kernel touches only the
// first of each argument is known.
#pragma once
#include <array>

#include "dsl/spmd/buckets.h"
#include "verify/source/step_walk.h"

namespace hetsynth::source {

/// Whether a text is the host side of a cuda rank.
bool is_device_host(const Unit& unit);

class DeviceWalk final : public StepWalk {
 public:
  /// `program` must outlive this.
  DeviceWalk(const Program& reference, const BucketedProgram& program, const RankSource& source, const Unit& unit);

  void run() override;

 private:
  enum Stream { compute, communication };
  struct Access {
    int64_t begin = 0, end = 0;  ///< bytes
    bool writes = false;
  };
  /// Something issued to a stream.
  struct Issued {
    std::vector<Access> accesses;
    std::string what;
    int line = 0;
  };
  using Clock = std::array<size_t, 2>;  ///< by stream: how many of what was issued to it are done
  struct Call {
    std::string name;
    std::vector<int64_t> numbers;  ///< arguments that are numbers or addresses, in order
    int axis = -1;
    int line = 0;
  };

  void declare(const Statement& s) override;
  void loop(const Statement& s) override;
  [[noreturn]] void call(const Statement& s) override;
  void checked(const Expression& value, int line) override;
  void launch(const Expression& e);
  void product(const Expression& e);
  void nccl(const Expression& e);
  void end_group(int line);
  std::string what_is(const Instruction& i) const;
  std::vector<Call> wanted_calls(const Instruction& i, const std::vector<Call>& found) const;
  /// Its calls must be the wanted ones; `out` gets what they touch.
  void collective(const Instruction& i, const std::vector<Call>& calls, const std::vector<Call>& wanted,
                  Issued& out) const;
  void expect_calls(const Instruction& i, const std::vector<Call>& found, const std::vector<Call>& wanted,
                    const std::string& what) const;
  std::vector<Call> pieces(const Instruction& i, const std::vector<int64_t>& cut, int64_t each) const;
  std::vector<Call> exchanged(const Instruction& i) const;
  void issue(Stream stream, Issued issued);
  void finish();
  int64_t integer(const Expression& e, const std::map<int, int64_t>& counters = {}) const;
  Stream stream(const Expression& e) const;

  const std::vector<int>& bucket_of_;  ///< by instruction
  const Unit& unit_;
  std::map<int, int64_t> integers_;   ///< variables by slot; pointers as bytes in the arena
  std::map<int, int64_t> last_;       ///< counters of loops: what they end at
  std::map<int, int> communicators_;  ///< variables by slot: mesh axis
  std::array<std::vector<Issued>, 2> issued_;
  std::array<Clock, 2> clocks_{};  ///< by stream: what is surely done before what is issued to it next
  std::map<int64_t, Clock> events_;
  std::vector<Call> group_;
  bool grouped_ = false;
};

}  // namespace hetsynth::source
