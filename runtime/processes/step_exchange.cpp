#include "runtime/processes/step_exchange.h"

#include <algorithm>
#include <memory>

#include "runtime/rank/run_state.h"

namespace hetsynth {
namespace {

void append(std::string& out, const void* data, size_t bytes) { out.append(static_cast<const char*>(data), bytes); }

/// Reads back what was appended.
class Reader {
 public:
  explicit Reader(const std::string& words) : words_(words) {}
  bool at_end() const { return at_ == words_.size(); }
  void take(void* to, size_t bytes) {
    HETSYNTH_CHECK(words_.size() - at_ >= bytes, "processes of one program exchange whole parts");
    std::memcpy(to, words_.data() + at_, bytes);
    at_ += bytes;
  }
  uint64_t number() {
    uint64_t out = 0;
    take(&out, sizeof out);
    return out;
  }

 private:
  const std::string& words_;
  size_t at_ = 0;
};

}  // namespace

std::vector<TensorPart> exchange_parts(Job& job, const std::vector<TensorPart>& own) {
  static_assert(std::is_trivially_copyable_v<Range>);
  std::string words;
  for (const TensorPart& part : own) {
    for (const uint64_t number : {uint64_t(part.ranges.size()), uint64_t(part.bytes.size())})
      append(words, &number, sizeof number);
    append(words, part.ranges.data(), part.ranges.size() * sizeof(Range));
    append(words, part.bytes.data(), part.bytes.size());
  }
  std::vector<TensorPart> out;
  for (const std::string& theirs : job.exchange(words)) {
    for (Reader reader(theirs); !reader.at_end();) {
      TensorPart part;
      part.ranges.resize(reader.number());
      part.bytes.resize(reader.number());
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
