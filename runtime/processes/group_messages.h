// Messages between the processes of a group's members: what calls send to each other one, in one message.
#pragma once
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "runtime/collectives/collective_pieces.h"
#include "runtime/processes/job.h"
#include "runtime/rank/run_state.h"

namespace hetsynth {

/// The process that each rank of a run belongs to.
using ProcessOfRank = std::vector<int>;

struct MessageGroup {
  std::vector<int> ranks;
  int member = 0;       ///< this rank's place among them
  uint64_t number = 0;  ///< of the exchange that comes next
};

/// What one call sends to every member of the group, and what becomes of what they send: `expected` elements come from
/// each, and are handed to `take`.
struct MessagePart {
  const CollectiveCall* call = nullptr;
  std::function<Piece(int to)> sent{};
  std::function<void(int from, const std::byte* bytes)> take{};
  std::function<int64_t(int from)> expected{};

  int64_t element_bytes() const { return bytes_per_element(call->type); }
  size_t bytes_to(int member) const { return size_t(sent(member).elements() * element_bytes()); }
  size_t bytes_from(int member) const { return size_t(expected(member) * element_bytes()); }
  void pack(int to, std::byte* at) const { copy_out(call->source, sent(to), element_bytes(), at); }
};

/// One rank's messages.
class GroupMessages {
 public:
  /// `times`: where idle and transfer time are added up. All arguments must outlive this.
  GroupMessages(int rank, RunState& state, Job& job, const ProcessOfRank& process_of, RankTimes& times);
  ~GroupMessages();

  /// One message to every other member, with what all parts send to it, and one from each. `what` says in messages what
  /// is exchanged. False, with the run failed or failing, if the messages do not come or members call different things.
  bool exchange(MessageGroup& group, const std::string& what, std::span<const MessagePart> parts);

  /// Begins this rank's part of a send between the members of `pair`, sender and receiver, and returns. What is sent is
  /// copied first. These messages are apart from those of exchange(): one thread may post while another exchanges.
  void post(MessageGroup& pair, const CollectiveCall& call);
  /// Waits until the data of a posted call are there, which they are at once on the sender, and adds the time of
  /// waiting and the bytes to `times`. False as for exchange().
  bool finish(int id, RankTimes& times);
  /// Moves posted messages on, which has to be asked for again and again. True if some are under way. It may be called
  /// from any thread.
  bool progress();

 private:
  struct Header;
  struct Arriving;
  using Messages = std::vector<std::unique_ptr<Message>>;
  Header header_of(MessageGroup& group, const std::string& what, std::span<const MessagePart> parts) const;
  bool wait(const Messages& messages, const MessageGroup& group, const std::string& what);
  bool agree(const Messages& incoming, const std::vector<int>& senders, const MessageGroup& group,
             const std::string& what, const Header& own);
  int process(const MessageGroup& group, int member) const { return process_of_[size_t(group.ranks[size_t(member)])]; }
  int tag(int from, int to) const { return first_free_tag + from * state_.ranks() + to; }
  int tag_of_posted(int from, int to) const { return tag(from, to) + state_.ranks() * state_.ranks(); }

  const int rank_;
  RunState& state_;
  Job& job_;
  const ProcessOfRank& process_of_;
  RankTimes& times_;
  std::mutex mutex_;  ///< of what is posted
  std::deque<std::unique_ptr<Message>> sent_;
  std::map<int, std::unique_ptr<Arriving>> arriving_;  ///< by number of the call
};

}  // namespace hetsynth
