#include "runtime/processes/link_probe.h"

#include <time.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "runtime/rank/run_state.h"
#include "runtime/rank/throttle.h"

namespace hetsynth {
namespace {

/// Of a message that bandwidth is measured with: as much as a bucket of gradients, and more than sockets hold.
constexpr size_t long_message = 4 << 20;
constexpr int round_trips = 50;
/// Exchanges of long messages whose processor time is taken; the first of all warms the connection up.
constexpr int least_exchanges = 4, most_exchanges = 64;
constexpr int tag = first_free_tag;

[[noreturn]] void fail(const Job& job, const std::string& why) {
  const std::optional<ProcessFailure> other = job.failure();
  const std::string text = other ? job.describe(other->process) + " failed: " + other->message : why;
  throw RunFailed({-1, text, nullptr}, text);
}

double processor_seconds() {
  timespec spent{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &spent);
  return double(spent.tv_sec) + 1e-9 * double(spent.tv_nsec);
}

class PairProbe {
 public:
  PairProbe(Job& job, int other) : job_(job), other_(other) {}

  /// Sends so many bytes and receives as many at the same time.
  void exchange(size_t bytes) {
    Messages messages;
    messages.push_back(job_.group().receive(other_, tag, bytes));
    std::vector<std::byte> packed(bytes);
    std::memcpy(packed.data(), sent_.data(), bytes);
    messages.push_back(job_.group().send(other_, tag, std::move(packed)));
    wait(messages);
    add(messages[0]->bytes());
  }

  /// There and back again, in seconds. `begins`: of the two.
  double round_trip(bool begins) {
    const double start = wall_seconds();
    begins ? send(0) : void(receive());
    begins ? void(receive()) : send(0);
    return wall_seconds() - start;
  }

  /// The smaller one of both sides' words.
  int agree(int own) {
    send(own);
    return std::min(own, receive());
  }

 private:
  using Messages = std::vector<std::unique_ptr<Message>>;

  void send(int word) {
    std::vector<std::byte> bytes(sizeof word);
    std::memcpy(bytes.data(), &word, sizeof word);
    Messages messages;
    messages.push_back(job_.group().send(other_, tag, std::move(bytes)));
    wait(messages);
  }

  int receive() {
    int word = 0;
    Messages messages;
    messages.push_back(job_.group().receive(other_, tag, sizeof word));
    wait(messages);
    if (messages[0]->bytes().size() == sizeof word) std::memcpy(&word, messages[0]->bytes().data(), sizeof word);
    return word;
  }

  void wait(const Messages& messages) {
    SignalPatience patience;
    if (!wait_for(messages, [&] { return job_.failure().has_value() || patience.is_over(); }))
      fail(job_, "the measurement of links was ended");
  }

  /// What comes is added up, as gradients are.
  void add(std::span<const std::byte> bytes) {
    for (size_t i = 0; i + sizeof(float) <= bytes.size(); i += sizeof(float)) {
      float value;
      std::memcpy(&value, bytes.data() + i, sizeof value);
      sums_[i / sizeof(float)] += value;
    }
  }

  Job& job_;
  const int other_;
  const std::vector<std::byte> sent_ = std::vector<std::byte>(long_message);
  std::vector<float> sums_ = std::vector<float>(long_message / sizeof(float));
};

/// What one of two processes found.
struct Found {
  double bandwidth = 0, latency = 0, processor_seconds_per_byte = 0;
};

Found probe_pair(Job& job, int other, double seconds) {
  const bool begins = job.process() < other;
  PairProbe pair(job, other);
  Found out;
  pair.exchange(long_message);
  std::vector<double> trips;
  for (int i = 0; i < round_trips; ++i) trips.push_back(pair.round_trip(begins));
  std::ranges::nth_element(trips, trips.begin() + round_trips / 2);
  out.latency = trips[round_trips / 2] / 2;
  const double one = wall_seconds();
  pair.exchange(long_message);
  const double expected = wall_seconds() - one;
  const int count =
      std::max(1, pair.agree(std::clamp(int(seconds / std::max(expected, 1e-9)), least_exchanges, most_exchanges)));
  const double start = wall_seconds(), spent = processor_seconds();
  for (int i = 0; i < count; ++i) pair.exchange(long_message);
  const double bytes = double(count) * double(long_message);
  out.bandwidth = bytes / (wall_seconds() - start);
  out.processor_seconds_per_byte = (processor_seconds() - spent) / (2 * bytes);
  return out;
}

}  // namespace

LinkProbeResult probe_links(Job& job, const LinkProbeOptions& options) {
  LinkProbeResult out;
  out.slowest = unlimited_link;
  std::vector<double> dearest(size_t(job.count()), 0);
  for (int first = 0; first < job.count(); ++first)
    for (int second = first + 1; second < job.count(); ++second) {
      Found found;
      if (job.process() == first || job.process() == second)
        found = probe_pair(job, job.process() == first ? second : first, options.seconds);
      std::string told(sizeof found, 0);
      std::memcpy(told.data(), &found, sizeof found);
      const std::vector<std::string> all = job.exchange(told);
      Link link = unlimited_link;
      for (const int process : {first, second}) {
        Found theirs;
        if (all[size_t(process)].size() != sizeof theirs) fail(job, "another process runs another hetsynth");
        std::memcpy(&theirs, all[size_t(process)].data(), sizeof theirs);
        link = slower(link, {theirs.bandwidth, theirs.latency});
        dearest[size_t(process)] = std::max(dearest[size_t(process)], theirs.processor_seconds_per_byte);
      }
      out.pairs.push_back({first, second, link});
      out.slowest = slower(out.slowest, link);
    }
  for (const double seconds : dearest) out.message_bytes_per_second.push_back(seconds > 0 ? 1 / seconds : HUGE_VAL);
  return out;
}

}  // namespace hetsynth
