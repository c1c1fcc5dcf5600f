#include "tests/support/process_double.h"

#include <algorithm>

namespace hetsynth::testing_support {

class DoubleProcess : public ProcessGroup {
 public:
  DoubleProcess(DoubleProcesses& all, int number, std::string host)
      : all_(all), number_(number), host_(std::move(host)) {}

  int process() const override { return number_; }
  int count() const override { return int(all_.silent_.size()); }
  std::string host() const override { return host_; }

  std::unique_ptr<Message> send(int to, int tag, std::vector<std::byte> bytes) override {
    std::lock_guard lock(all_.mutex_);
    const DoubleProcesses::Route route{number_, to, tag};
    ++all_.counted_[route];
    if (!all_.silent_[size_t(number_)]) all_.sent_[route].push_back(std::move(bytes));
    all_.match(route);
    auto handed_over = std::make_shared<DoubleProcesses::Pending>();
    handed_over->done = true;
    return std::make_unique<DoubleMessage>(all_, std::move(handed_over));
  }

  std::unique_ptr<Message> receive(int from, int tag, size_t bytes) override {
    std::lock_guard lock(all_.mutex_);
    auto pending = std::make_shared<DoubleProcesses::Pending>();
    pending->bytes.resize(bytes);
    const DoubleProcesses::Route route{from, number_, tag};
    all_.wanted_[route].push_back(pending);
    all_.match(route);
    return std::make_unique<DoubleMessage>(all_, std::move(pending));
  }

  void abandon(int exit_code) override { throw Abandoned(exit_code); }

 private:
  class DoubleMessage : public Message {
   public:
    DoubleMessage(DoubleProcesses& all, std::shared_ptr<DoubleProcesses::Pending> pending)
        : all_(all), pending_(std::move(pending)) {}
    bool done() override {
      std::lock_guard lock(all_.mutex_);
      return pending_->done;
    }
    bool truncated() const override { return pending_->truncated; }
    std::span<const std::byte> bytes() const override { return pending_->bytes; }
    void cancel() override {}

   private:
    DoubleProcesses& all_;
    std::shared_ptr<DoubleProcesses::Pending> pending_;
  };

  DoubleProcesses& all_;
  const int number_;
  const std::string host_;
};

DoubleProcesses::DoubleProcesses(std::vector<std::string> hosts) : silent_(hosts.size(), false) {
  for (size_t p = 0; p < hosts.size(); ++p)
    processes_.push_back(std::make_unique<DoubleProcess>(*this, int(p), std::move(hosts[p])));
}

DoubleProcesses::~DoubleProcesses() = default;

void DoubleProcesses::silence(int process) {
  std::lock_guard lock(mutex_);
  silent_[size_t(process)] = true;
}

int DoubleProcesses::sent(int from, int to, int tag) const {
  std::lock_guard lock(mutex_);
  int out = 0;
  for (const auto& [route, count] : counted_)
    if (std::get<0>(route) == from && std::get<1>(route) == to && std::get<2>(route) >= tag) out += count;
  return out;
}

int DoubleProcesses::undelivered() const {
  std::lock_guard lock(mutex_);
  int out = 0;
  for (const auto& [route, messages] : sent_) out += int(messages.size());
  return out;
}

void DoubleProcesses::match(const Route& route) {
  auto& sent = sent_[route];
  auto& wanted = wanted_[route];
  while (!sent.empty() && !wanted.empty()) {
    const std::shared_ptr<Pending> pending = wanted.front().lock();
    wanted.pop_front();
    if (!pending) continue;  // nobody waits for it any longer
    pending->truncated = sent.front().size() > pending->bytes.size();
    std::copy_n(sent.front().begin(), std::min(sent.front().size(), pending->bytes.size()), pending->bytes.begin());
    pending->done = true;
    sent.pop_front();
  }
}

}  // namespace hetsynth::testing_support
