#include "runtime/processes/step_exchange.h"

#include <algorithm>
#include <memory>

#include "runtime/processes/packed_words.h"
#include "runtime/rank/run_state.h"

namespace hetsynth {
std::vector<TensorPart> exchange_parts(Job& job, const std::vector<TensorPart>& own) {
  static_assert(std::is_trivially_copyable_v<Range>);
  std::string words;
  for (const TensorPart& part : own) {
    append(words, uint64_t(part.ranges.size()));
    append(words, uint64_t(part.bytes.size()));
    append(words, part.ranges.data(), part.ranges.size() * sizeof(Range));
    append(words, part.bytes.data(), part.bytes.size());
  }
  std::vector<TensorPart> out;
  for (const std::string& theirs : job.exchange(words)) {
    for (WordReader reader(theirs); !reader.at_end();) {
      TensorPart part;
      part.ranges.resize(reader.next<uint64_t>());
      part.bytes.resize(reader.next<uint64_t>());
      reader.take(part.ranges.data(), part.ranges.size() * sizeof(Range));
      reader.take(part.bytes.data(), part.bytes.size());
      out.push_back(std::move(part));
    }
  }
  return out;
}

std::vector<std::vector<std::byte>> exchange_bytes(Job& job, int tag, std::vector<std::vector<std::byte>> to,
                                                   const std::vector<size_t>& expected) {
  // MPI counts with int, and a message is copied as a whole.
  constexpr size_t largest_message = size_t(64) << 20;
  std::vector<std::unique_ptr<Message>> sent;
  std::vector<std::vector<std::unique_ptr<Message>>> received(size_t(job.count()));
  for (int peer = 0; peer < job.count(); ++peer) {
    const std::vector<std::byte>& bytes = to[size_t(peer)];
    for (size_t at = 0; at < bytes.size(); at += largest_message) {
      const auto begin = bytes.begin() + ptrdiff_t(at);
      sent.push_back(
          job.group().send(peer, tag, {begin, begin + ptrdiff_t(std::min(largest_message, bytes.size() - at))}));
    }
    for (size_t at = 0; at < expected[size_t(peer)]; at += largest_message)
      received[size_t(peer)].push_back(
          job.group().receive(peer, tag, std::min(largest_message, expected[size_t(peer)] - at)));
  }
  const auto arrive = [&](const std::vector<std::unique_ptr<Message>>& messages) {
    if (wait_for(messages, [&] { return job.failure().has_value(); })) return;
    const ProcessFailure failure = *job.failure();
    throw RunFailed({-1, failure.message, nullptr}, job.describe(failure.process) + " failed: " + failure.message);
  };
  std::vector<std::vector<std::byte>> out(size_t(job.count()));
  for (int peer = 0; peer < job.count(); ++peer) {
    arrive(received[size_t(peer)]);
    for (const std::unique_ptr<Message>& message : received[size_t(peer)])
      out[size_t(peer)].insert(out[size_t(peer)].end(), message->bytes().begin(), message->bytes().end());
  }
  arrive(sent);
  return out;
}

}  // namespace hetsynth
