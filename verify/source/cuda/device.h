// Follows the host program of a cuda rank: what it issues to its streams, in which order and on which bytes.
//
// Held against the SPMD program: what every kernel and product leaves in memory; the collectives in its order (in that
// of gather_buckets, those of a bucket in one group, where the program says so), each as NCCL calls over the right
// communicator with the right counts, pieces, type, reduction and root, on the right contents; and that no two accesses
// to the same bytes on different streams, one of them writing, are without an event between them. With these in place,
// everything happens as if it were issued to one stream.
#pragma once
#include <array>

#include "dsl/spmd/buckets.h"
#include "verify/source/step/arena_contents.h"
#include "verify/source/threads/kernel_region.h"

namespace hetsynth::source {

/// Whether a text is the host side of a cuda rank.
bool is_device_host(const Unit& unit);

class DeviceWalk final : public ContentsWalk {
 public:
  /// `program` must outlive this.
  DeviceWalk(const Program& reference, const BucketedProgram& program, const RankSource& source,
             const SourceOptions& options, Unit& unit)
      : ContentsWalk(reference, program.program, source, options, unit, {}), bucket_of_(program.bucket_of) {}

  void run() override;

 private:
  /// Sends go on streams of their own, one for each direction along their axis.
  enum Stream { compute, communication, rising, falling };
  static constexpr size_t streams = 4;
  /// Something issued to a stream.
  struct Issued {
    std::vector<Touched> accesses;
    std::string what;
    int line = 0;
  };
  using Clock = std::array<size_t, streams>;  ///< by stream: how many of what was issued to it are done
  /// The ranks of a communicator: those along an axis, of these those on this rank's host, or the hosts' leaders; those
  /// along the axis once more for sends to higher coordinates, and to lower ones.
  enum class Over { group, host, leaders, rising, falling };
  static Stream stream_of(Over over) {
    return over == Over::rising ? rising : over == Over::falling ? falling : communication;
  }
  /// What an address of a call is a place in: the operand, the result, or what a leader holds in between.
  enum class Base { operand, result, middle };
  /// Of NCCL.
  struct Call {
    /// What a call says besides where its data lie: count, type, reduction, peer.
    enum Number { from_at, to_at, count, type, reduction, peer, how_many };
    std::string name;
    std::vector<int64_t> numbers;  ///< arguments that are numbers or addresses, in order
    int axis = -1;
    int line = 0;
    Over over = Over::group;
    // Of calls that the program takes:
    std::array<Base, 2> in{Base::operand, Base::result};  ///< from, to
    int phase = 0;                                        ///< calls of a later one stand in a later group
  };
  struct Place {
    Base base;
    int64_t elements;
  };
  /// A value whose shares along a dimension lie one after the other, or each at a multiple of `stride` elements.
  struct Shares {
    ValueId value = -1;
    int dim = 0;
    std::vector<int64_t> cut = {};
    int64_t stride = 0;
    /// In place of `cut`: of a halo exchange, what goes to or comes from other ranks, which lies one after the other
    /// or, where the value's rows lie in one piece, at its place in the value.
    std::vector<Range> parts = {};
  };
  /// Of shares: their part of the dimension, from the value's first on, and where it begins, in elements.
  struct Piece {
    Range part;
    int64_t begin;
  };
  /// The calls of one collective, and what they move from where to where.
  struct Exchange {
    const Instruction* instruction = nullptr;
    std::vector<Call> calls;
    Shares from, to;
    int64_t source = -1, target = -1;  ///< bytes; -1: nothing is read, nothing arrives
    int64_t middle = -1;  ///< where what a leader holds of its host and of others begins; -1: it holds nothing
  };

  // device.cpp
  void declare(const Statement& s) override;
  void loop(const Statement& s) override;
  [[noreturn]] void call(const Statement& s) override;
  void checked(const Expression& value, int line) override;
  void attention(const Statement& s, const Expression& e);
  void launch(const Expression& e);
  const Function& launched(const Expression& number) const;
  std::vector<Touched> left_by_forward(const Expression& gradient, int line) const;
  void copy(const Expression& e);
  std::pair<ValueId, std::vector<int64_t>> copied(int64_t from, int64_t bytes, int line);
  void order(const Expression& e);
  void through_host(const Expression& e);
  void follow_region(const std::shared_ptr<Region>& region, const std::vector<std::string>& names,
                     const std::set<int>& scratch, const std::vector<int64_t>& arguments, Stream on,
                     const std::string& what, int line);
  void issue(Stream stream, Issued issued);
  int64_t integer(const Expression& e) const;
  Stream stream(const Expression& e) const;

  // nccl.cpp
  void nccl(const Expression& e);
  void end_group(int line);
  bool end_phase(const std::vector<const Instruction*>& members);
  void carry_out(const std::vector<Exchange>& exchanges, int line);
  const Instruction* next_move();
  std::vector<const Instruction*> next_members();
  Exchange exchange(const Instruction& i, size_t first, bool last) const;
  Exchange exchange_by_host(const Instruction& i, std::vector<std::vector<Call>>& phases, bool last) const;
  std::vector<Call> by_host(const Instruction& i) const;
  Call call_of_phase(const Instruction& i, int phase, const char* name, int64_t elements, int64_t peer, Place from,
                     Place to) const;
  int me_among(Over over, int axis) const;
  int count_of(Over over, int axis) const;
  std::vector<Call> pieces(const Instruction& i, const std::vector<int64_t>& cut, int64_t each) const;
  std::vector<Call> exchanged(const Instruction& i) const;
  void expect_calls(Exchange& e, const std::vector<Call>& wanted, const std::string& what) const;
  std::vector<Touched> accesses(const Call& call, const Instruction& i) const;
  void expect_apart(const std::vector<std::vector<Touched>>& by_call, int line) const;
  void expect_in_place(const std::vector<Touched>& both, const Call& call, const Instruction& i) const;
  void move_pieces(const Instruction& i, Exchange& out) const;
  std::string description(const Instruction& i) const;

  // nccl_exchange_by_host.cpp
  std::vector<Call> exchanged_by_host(const Instruction& i) const;
  bool passes_on(const Instruction& i) const;
  void expect_middle_apart(const Exchange& e, const std::vector<Call>& wanted) const;

  // nccl_halo.cpp
  std::vector<Call> halo(const Instruction& i, Shares& from, Shares& to) const;
  bool is_quiet(const Instruction& i) const;
  void expect_own_part(const Exchange& e);

  // nccl_contents.cpp
  std::vector<Piece> pieces_of(const Shares& shares) const;
  int64_t elements_of(const Shares& shares) const;
  void expect_operand(const Exchange& e);
  void put_result(const Exchange& e);
  bool lie_densely(const Shares& shares) const;
  int64_t dense_offset(const Shares& shares, const std::vector<Piece>& pieces, int64_t offset) const;

  const std::vector<int>& bucket_of_;  ///< by instruction
  Unit kernels_;
  KnownKernels known_;
  std::map<int, std::pair<int, Over>> communicators_;  ///< variables by slot: mesh axis and ranks
  std::array<std::vector<Issued>, streams> issued_;
  std::array<Clock, streams> clocks_{};  ///< by stream: what is surely done before what is issued to it next
  std::map<int64_t, Clock> events_;
  std::map<int, Expression> attention_;                    ///< calls by line
  std::vector<std::pair<Expression, int>> forward_calls_;  ///< of attention so far, with their lines
  std::vector<Call> group_;
  std::vector<std::vector<Call>> phases_;  ///< of a hierarchical collective: its groups so far
  bool grouped_ = false;
};

}  // namespace hetsynth::source
