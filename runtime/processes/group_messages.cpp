#include "runtime/processes/group_messages.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>

#include "runtime/rank/throttle.h"

namespace hetsynth {

/// In front of every message, so that ranks which call different collectives notice.
struct GroupMessages::Header {
  uint64_t number = 0;  ///< of the rank's collectives in this group
  uint64_t hash = 0;    ///< of the call
  char text[112] = {};  ///< of the call, for the message
};

/// What is to come of a posted call.
struct GroupMessages::Arriving {
  MessageGroup pair;
  CollectiveCall call;
  Header header;
  Messages message{};
};

GroupMessages::GroupMessages(int rank, RunState& state, Job& job, const ProcessOfRank& process_of, RankTimes& times)
    : rank_(rank), state_(state), job_(job), process_of_(process_of), times_(times) {}

GroupMessages::~GroupMessages() = default;

void GroupMessages::post(MessageGroup& pair, const CollectiveCall& call) {
  const MessagePart part{.call = &call};
  const Header header = header_of(pair, text(call), {&part, 1});
  const auto bytes = size_t(call.count * bytes_per_element(call.type));
  const int sender = pair.ranks[0], receiver = pair.ranks[1];
  const int tag = tag_of_posted(sender, receiver);
  if (pair.member == 0) {
    std::vector<std::byte> packed(sizeof header + bytes);
    std::memcpy(packed.data(), &header, sizeof header);
    std::memcpy(packed.data() + sizeof header, call.source, bytes);
    std::unique_ptr<Message> message = job_.group().send(process(pair, 1), tag, std::move(packed));
    std::lock_guard lock(mutex_);
    sent_.push_back(std::move(message));
    return;
  }
  auto arriving = std::make_unique<Arriving>(Arriving{pair, call, header});
  arriving->message.push_back(job_.group().receive(process(pair, 0), tag, sizeof header + bytes));
  std::lock_guard lock(mutex_);
  arriving_[call.id] = std::move(arriving);
}

bool GroupMessages::finish(int id, RankTimes& times) {
  std::unique_ptr<Arriving> arriving;
  {
    std::lock_guard lock(mutex_);
    if (auto found = arriving_.extract(id)) arriving = std::move(found.mapped());
  }
  if (!arriving) return !state_.aborted();
  const double start = wall_seconds();
  const std::string what = text(arriving->call);
  const bool there = wait(arriving->message, arriving->pair, what);
  times.idle_seconds += wall_seconds() - start;
  if (!there || !agree(arriving->message, {0}, arriving->pair, what, arriving->header)) return false;
  const std::span<const std::byte> data = arriving->message[0]->bytes().subspan(sizeof(Header));
  std::memcpy(arriving->call.destination, data.data(), data.size());
  times.moved_bytes += int64_t(data.size());
  return true;
}

bool GroupMessages::progress() {
  std::lock_guard lock(mutex_);
  while (!sent_.empty() && sent_.front()->done()) sent_.pop_front();
  // One that is asked moves all on.
  if (sent_.empty() && !arriving_.empty()) arriving_.begin()->second->message[0]->done();
  return !sent_.empty() || !arriving_.empty();
}

bool GroupMessages::exchange(MessageGroup& group, const std::string& what, std::span<const MessagePart> parts) {
  const double start = wall_seconds();
  const Header header = header_of(group, what, parts);
  const auto total = [&](auto bytes, int member) {
    size_t sum = 0;
    for (const MessagePart& part : parts) sum += (part.*bytes)(member);
    return sum;
  };
  const auto pack = [&](int to, std::byte* at) {
    for (const MessagePart& part : parts) part.pack(to, at), at += part.bytes_to(to);
  };
  const auto take = [&](int from, const std::byte* at) {
    for (const MessagePart& part : parts) part.take(from, at), at += part.bytes_from(from);
  };
  Messages incoming, all;
  std::vector<int> senders;
  const int members = int(group.ranks.size());
  // Each begins with the member behind it: if all began with the first, they would share its link while those of the
  // others are idle, and take up to twice as long.
  for (int k = 1; k < members; ++k) {
    const int j = (group.member + members - k) % members;
    senders.push_back(j);
    incoming.push_back(job_.group().receive(process(group, j), tag(group.ranks[size_t(j)], rank_),
                                            sizeof header + total(&MessagePart::bytes_from, j)));
  }
  for (int k = 1; k < members; ++k) {
    const int j = (group.member + k) % members;
    std::vector<std::byte> bytes(sizeof header + total(&MessagePart::bytes_to, j));
    std::memcpy(bytes.data(), &header, sizeof header);
    pack(j, bytes.data() + sizeof header);
    all.push_back(job_.group().send(process(group, j), tag(rank_, group.ranks[size_t(j)]), std::move(bytes)));
  }
  std::vector<std::byte> own(total(&MessagePart::bytes_from, group.member));
  pack(group.member, own.data());
  const double packed = wall_seconds();
  const bool complete = wait(incoming, group, what) && agree(incoming, senders, group, what, header);
  times_.idle_seconds += wall_seconds() - packed;
  if (!complete) return false;
  const double arrived = wall_seconds();
  for (size_t i = 0; i < senders.size(); ++i) take(senders[i], incoming[i]->bytes().data() + sizeof header);
  take(group.member, own.data());
  times_.transfer_seconds += packed - start + wall_seconds() - arrived;
  return wait(all, group, what);
}

GroupMessages::Header GroupMessages::header_of(MessageGroup& group, const std::string& what,
                                               std::span<const MessagePart> parts) const {
  std::string all;
  for (const MessagePart& part : parts) all += text(*part.call) + "\n";
  Header out;
  out.number = group.number++;
  out.hash = std::hash<std::string>{}(all);
  std::memcpy(out.text, what.data(), std::min(what.size(), sizeof out.text - 1));
  return out;
}

/// False, with the run failed or failing, if the messages do not come.
bool GroupMessages::wait(const Messages& messages, const MessageGroup& group, const std::string& what) {
  SignalPatience patience;
  const bool done = wait_for(messages, [&] { return state_.aborted() || patience.is_over(); });
  if (!done && !state_.aborted()) {
    std::vector<std::string> others;
    for (const int rank : group.ranks)
      if (process_of_[size_t(rank)] != job_.process())
        others.push_back(fmt::format("{} ({})", state_.describe(rank), job_.describe(process_of_[size_t(rank)])));
    state_.fail(rank_, fmt::format("told to stop by a signal while it waited in {} for {}; if nobody stopped the run, "
                                   "one of these processes has died",
                                   what, fmt::join(others, ", ")));
  }
  return done;
}

bool GroupMessages::agree(const Messages& incoming, const std::vector<int>& senders, const MessageGroup& group,
                          const std::string& what, const Header& own) {
  for (size_t i = 0; i < senders.size(); ++i) {
    Header header;
    std::memcpy(&header, incoming[i]->bytes().data(), sizeof header);
    header.text[sizeof header.text - 1] = '\0';
    if (!incoming[i]->truncated() && header.number == own.number && header.hash == own.hash) continue;
    state_.fail(rank_, fmt::format("ranks met in different collectives:\n  {}: {}\n  {}: {}", state_.describe(rank_),
                                   what, state_.describe(group.ranks[size_t(senders[i])]), header.text));
    return false;
  }
  return true;
}

}  // namespace hetsynth
