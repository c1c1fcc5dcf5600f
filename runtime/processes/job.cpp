#include "runtime/processes/job.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <exception>
#include <mutex>
#include <thread>

#include "runtime/rank/interrupt.h"
#include "runtime/rank/run_state.h"

namespace hetsynth {
namespace {

using Clock = std::chrono::steady_clock;

enum Tag : int { tag_control = 0, tag_length = 1, tag_words = 2 };

/// One message of the watch. Its length is fixed, so that a receive can be posted ahead.
struct Control {
  enum Kind : uint32_t { alive, failed, goodbye } kind = alive;
  char text[2044] = {};
};
static_assert(sizeof(Control) == 2048);

template <class T>
std::vector<std::byte> bytes_of(const T& value) {
  std::vector<std::byte> out(sizeof value);
  std::memcpy(out.data(), &value, sizeof value);
  return out;
}

}  // namespace

bool SignalPatience::is_over() {
  constexpr std::chrono::milliseconds after_signal{300};
  if (!stop_requested()) return false;
  if (!since_) since_ = Clock::now();
  return Clock::now() - *since_ > after_signal;
}

bool wait_for(const std::vector<std::unique_ptr<Message>>& messages, const std::function<bool()>& stop) {
  constexpr int tries_without_sleep = 4;
  constexpr std::chrono::duration<double> shortest_sleep{20e-6}, longest_sleep{500e-6};
  const Clock::time_point start = Clock::now();
  size_t first = 0;
  for (int tries = 0;; ++tries) {
    // All are asked each time: messages move on only so.
    bool all = true;
    for (size_t i = first; i < messages.size(); ++i) {
      const bool done = messages[i]->done();
      all = all && done;
      if (done && i == first) ++first;
    }
    if (all) return true;
    if (stop()) return false;
    // Asking takes a core away from those that are waited for, and from this rank's own computing beside the exchange.
    // So one asks the less often the longer it takes, and is late by an eighth of the wait at most.
    if (tries < tries_without_sleep) {
      std::this_thread::yield();
      continue;
    }
    const std::chrono::duration<double> waited = Clock::now() - start;
    std::this_thread::sleep_for(std::clamp(waited / 8, shortest_sleep, longest_sleep));
  }
}

struct Job::Impl {
  struct Peer {
    std::unique_ptr<Message> next;  ///< its next control message
    Clock::duration heard{};        ///< by the watch's own clock
    bool said_goodbye = false;
    std::string failed;  ///< its own words
  };

  Impl(ProcessGroup& processes, const JobOptions& job_options)
      : group(processes), options(job_options), peers(size_t(group.count())) {
    for (int p = 0; p < group.count(); ++p)
      if (p != self()) listen(p);
    watch = std::thread([this] { serve(); });
  }

  ~Impl() {
    {
      std::lock_guard lock(mutex);
      leaving = true;
      // Who failed, or heard of a failure, waits for nobody.
      abandoned = heard || !announcement.empty();
    }
    watch.join();
    for (Peer& peer : peers)
      if (peer.next) peer.next->cancel();
  }

  int self() const { return group.process(); }

  void listen(int peer) { peers[size_t(peer)].next = group.receive(peer, tag_control, sizeof(Control)); }

  void tell(int peer, Control::Kind kind, const std::string& text = "") {
    Control control;
    control.kind = kind;
    std::memcpy(control.text, text.data(), std::min(text.size(), sizeof control.text - 1));
    sent.push_back(group.send(peer, tag_control, bytes_of(control)));
  }

  void tell_all(Control::Kind kind, const std::string& text = "") {
    for (int p = 0; p < group.count(); ++p)
      if (p != self()) tell(p, kind, text);
  }

  /// The watch: hears and tells until the process has said goodbye and all others have, or are dead.
  void serve() {
    Clock::time_point told{}, before = Clock::now();
    while (true) {
      std::function<void(const ProcessFailure&)> call;
      std::optional<ProcessFailure> news;
      {
        std::lock_guard lock(mutex);
        // Time in which this process did not run itself (all of them suspended, say) is nobody's silence.
        const Clock::time_point now = Clock::now();
        watched += std::min<Clock::duration>(now - before, options.patience / 10);
        before = now;
        hear();
        if (!announcement.empty() && !announced) tell_all(Control::failed, announcement), announced = true;
        if (leaving && !left) tell_all(Control::goodbye), left = true;
        // The first process hears all others and is heard by all: a star, as what one process knows all are told.
        if (!left && Clock::now() - told > options.patience / 6) {
          told = Clock::now();
          if (self() == 0)
            tell_all(Control::alive);
          else
            tell(0, Control::alive);
        }
        if (!announced && !heard) notice_silence();
        std::erase_if(sent, [](const auto& message) { return message->done(); });
        if (left && sent.empty() && all_left()) return;
        if (left && abandoned) return;
        if (heard && !passed_on && told_when_failing) news = heard, call = told_when_failing, passed_on = true;
      }
      if (call) call(*news);
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
  }

  void hear() {
    for (int p = 0; p < group.count(); ++p) {
      Peer& peer = peers[size_t(p)];
      while (peer.next && peer.next->done()) {
        Control control;
        std::memcpy(&control, peer.next->bytes().data(), sizeof control);
        control.text[sizeof control.text - 1] = '\0';
        peer.heard = watched;
        peer.next.reset();
        if (control.kind == Control::failed) {
          peer.failed = control.text;
          if (!heard) heard = ProcessFailure{p, control.text};
        }
        peer.said_goodbye = control.kind == Control::goodbye;
        if (!peer.said_goodbye) listen(p);
      }
    }
  }

  void notice_silence() {
    for (int p = 0; p < group.count(); ++p) {
      const bool listened_to = p != self() && (self() == 0 || p == 0);
      Peer& peer = peers[size_t(p)];
      if (!listened_to || peer.said_goodbye || watched - peer.heard < options.patience) continue;
      heard =
          ProcessFailure{p, fmt::format("nothing was heard of it for {} s: it has died, hangs, or cannot be reached",
                                        double(options.patience.count()) / 1000)};
      peer.said_goodbye = true;
      // The others do not listen to it.
      announcement = fmt::format("{} is gone: {}", describe(p), heard->message);
      return;
    }
  }

  bool all_left() const {
    for (int p = 0; p < group.count(); ++p)
      if (p != self() && !peers[size_t(p)].said_goodbye) return false;
    return true;
  }

  std::string describe(int process) const {
    const bool known = size_t(process) < hosts.size();
    return known ? fmt::format("process {} on {}", process, hosts[size_t(process)])
                 : fmt::format("process {}", process);
  }

  ProcessGroup& group;
  const JobOptions options;
  mutable std::mutex mutex;
  std::vector<Peer> peers;
  Clock::duration watched{};  ///< time that the watch has seen pass
  std::vector<std::unique_ptr<Message>> sent;
  std::vector<std::string> hosts;
  std::string announcement;
  bool announced = false, leaving = false, left = false, passed_on = false, abandoned = false;
  std::optional<ProcessFailure> heard;
  std::function<void(const ProcessFailure&)> told_when_failing;
  std::thread watch;
};

Job::Job(ProcessGroup& group, const JobOptions& options) : impl_(std::make_unique<Impl>(group, options)) {
  // Whoever fails at once knew all hosts: they are on their way, and messages name them.
  constexpr std::chrono::seconds on_their_way{1};
  try {
    std::vector<std::string> hosts = exchange(group.host(), on_their_way);
    std::lock_guard lock(impl_->mutex);
    impl_->hosts = std::move(hosts);
  } catch (const std::exception& error) {
    if (!failure()) announce(error.what());
    throw;
  }
}

Job::~Job() = default;

ProcessGroup& Job::group() { return impl_->group; }
int Job::process() const { return impl_->self(); }
int Job::count() const { return impl_->group.count(); }
const std::string& Job::host(int process) const { return impl_->hosts.at(size_t(process)); }

std::string Job::describe(int process) const {
  std::lock_guard lock(impl_->mutex);
  return impl_->describe(process);
}

std::vector<std::string> Job::exchange(const std::string& own) { return exchange(own, std::chrono::milliseconds{0}); }

std::vector<std::string> Job::exchange(const std::string& own, std::chrono::milliseconds after_failure) {
  SignalPatience patience;
  std::optional<Clock::time_point> failed;
  const auto stop = [&] {
    if (!failed && failure()) failed = Clock::now();
    return (failed && Clock::now() - *failed >= after_failure) || patience.is_over();
  };
  const auto wait = [&](const std::vector<std::unique_ptr<Message>>& messages) {
    if (wait_for(messages, stop)) return;
    if (!failure())
      throw RunFailed({-1, "", nullptr}, describe(process()) +
                                             " was told to stop by a signal while it waited for the other processes; "
                                             "if nobody stopped the run, one of them has died");
    const ProcessFailure found = *failure();
    throw RunFailed({-1, found.message, nullptr}, describe(found.process) + " failed: " + found.message);
  };
  std::vector<std::unique_ptr<Message>> sent, lengths, words;
  std::vector<int> others;
  for (int p = 0; p < count(); ++p)
    if (p != process()) others.push_back(p);
  for (const int p : others) {
    sent.push_back(impl_->group.send(p, tag_length, bytes_of(uint64_t(own.size()))));
    const auto* const data = reinterpret_cast<const std::byte*>(own.data());
    sent.push_back(impl_->group.send(p, tag_words, {data, data + own.size()}));
    lengths.push_back(impl_->group.receive(p, tag_length, sizeof(uint64_t)));
  }
  wait(lengths);
  for (size_t i = 0; i < others.size(); ++i) {
    uint64_t length = 0;
    std::memcpy(&length, lengths[i]->bytes().data(), sizeof length);
    words.push_back(impl_->group.receive(others[i], tag_words, size_t(length)));
  }
  wait(words);
  wait(sent);
  std::vector<std::string> out(static_cast<size_t>(count()));
  out[size_t(process())] = own;
  for (size_t i = 0; i < others.size(); ++i) {
    const std::span<const std::byte> bytes = words[i]->bytes();
    out[size_t(others[i])].assign(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }
  return out;
}

void Job::announce(const std::string& message) {
  std::lock_guard lock(impl_->mutex);
  if (impl_->announcement.empty()) impl_->announcement = message.empty() ? "unknown failure" : message;
}

std::optional<ProcessFailure> Job::failure() const {
  std::lock_guard lock(impl_->mutex);
  return impl_->heard;
}

void Job::on_failure(std::function<void(const ProcessFailure&)> told) {
  std::lock_guard lock(impl_->mutex);
  impl_->told_when_failing = std::move(told);
  impl_->passed_on = false;
}

bool Job::settle() {
  const Clock::time_point until = Clock::now() + std::chrono::milliseconds(stop_requested() ? 100 : 3000);
  {
    std::lock_guard lock(impl_->mutex);
    impl_->leaving = true;
  }
  for (bool all = false; !all && Clock::now() < until;) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    std::lock_guard lock(impl_->mutex);
    all = impl_->all_left();
  }
  std::lock_guard lock(impl_->mutex);
  for (int p = 0; p < process(); ++p)
    if (!impl_->announcement.empty() &&
        impl_->peers[size_t(p)].failed == impl_->announcement.substr(0, sizeof(Control::text) - 1))
      return true;
  return false;
}

}  // namespace hetsynth
