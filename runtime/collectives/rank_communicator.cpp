#include "runtime/collectives/rank_communicator.h"

#include <fmt/format.h>

#include <chrono>
#include <condition_variable>
#include <deque>
#include <exception>
#include <map>
#include <mutex>
#include <thread>
#include <utility>

#include "runtime/collectives/rank_clock.h"

namespace hetsynth {
namespace {

/// Calls that are carried out together, with tables of their own: those of the program may lie on its stack.
struct Bundle {
  int id = 0;  ///< number of the first
  size_t members = 1;
  std::vector<CollectiveCall> calls;
  std::deque<std::vector<int64_t>> tables;  ///< a deque: what calls point to stays where it is

  bool complete() const { return calls.size() == members; }
  void add(const CollectiveCall& given) {
    CollectiveCall& call = calls.emplace_back(given);
    for (std::span<const int64_t>* table : {&call.bounds, &call.bounds_to, &call.hosts})
      if (!table->empty()) *table = tables.emplace_back(table->begin(), table->end());
  }
};

class RankCommunicator final : public Communicator {
 public:
  RankCommunicator(std::unique_ptr<Exchange> exchange, double duty, RunState& state, Overlap overlap)
      : exchange_(std::move(exchange)), state_(state), clock_(duty) {
    if (overlap == Overlap::beside) thread_ = std::thread([this] { serve(); });
  }
  ~RankCommunicator() override {
    {
      std::lock_guard lock(mutex_);
      leaving_ = true;
    }
    changed_.notify_all();
    if (thread_.joinable()) thread_.join();
  }
  RankCommunicator(const RankCommunicator&) = delete;
  RankCommunicator& operator=(const RankCommunicator&) = delete;

  bool begin(int id, int members) override {
    if (members < 1) return fails(fmt::format("began {} collectives at instruction {}", members, id));
    if (open_)
      return fails(fmt::format("began collective {} before all that began with {} were called", id, open_->id));
    open_.emplace();
    open_->id = id;
    open_->members = size_t(members);
    return true;
  }

  bool run(const CollectiveCall& call) override {
    if (!open_) return posted_at_once(call) ? post(call) && end(call.id) : carry_out_now(call);
    if (open_->calls.empty() && call.id != open_->id)
      return fails(fmt::format("began collective {}, but called {}", open_->id, text(call)));
    if (open_->members > 1 && (!may_join(call) || call.axis != (open_->calls.empty() ? call : open_->calls[0]).axis))
      return fails(fmt::format("called {} together with others", text(call)));
    open_->add(call);
    if (trace_) open_->calls.back().place = trace_->place();
    if (!open_->complete()) return true;
    Bundle bundle = std::move(*open_);
    open_.reset();
    if (!thread_.joinable()) return counted(bundle.calls, [&] { return exchange_->carry_out(bundle.calls); });
    if (bundle.members == 1 && posted_at_once(call)) return post(call);
    std::lock_guard lock(mutex_);
    if (failed_) return false;
    waiting_.push_back(std::move(bundle));
    changed_.notify_all();
    return true;
  }

  bool end(int id) override {
    if (open_)
      return fails(fmt::format("waits for collective {} before all that began with {} were called", id, open_->id));
    if (!thread_.joinable()) return !state_.aborted();
    bool posted = false;
    {
      std::lock_guard lock(mutex_);
      posted = posted_.contains(id);
      if (!posted && !under_way(id)) return !failed_;
    }
    if (posted) return finished(id);
    return counted({}, [&] { return wait([&] { return !under_way(id); }); });
  }

  int rank() const override { return exchange_->rank(); }
  int group_size(int axis) const override { return exchange_->group_size(axis); }
  int coordinate(int axis) const override { return exchange_->coordinate(axis); }
  const RankTimes& times() const override { return clock_.times; }
  void trace_to(StepTrace* trace) override { trace_ = trace; }
  void begin_step() override {
    open_.reset();
    clock_.start_compute();
  }
  void end_step() override {
    stop_computing();
    if (!thread_.joinable()) return;
    while (!posted_.empty()) finish_posted(posted_.begin()->first);
    wait([&] { return waiting_.empty() && !busy_ && (!moving_ || state_.aborted()); });
  }

 private:
  void stop_computing() {
    const double start = trace_ ? wall_seconds() : 0;
    clock_.stop_compute();
    if (trace_ && clock_.throttles()) trace_->slept(start, wall_seconds());
  }

  bool carry_out_now(CollectiveCall call) {
    if (trace_) call.place = trace_->place();
    return counted({&call, 1}, [&] {
      // Calls keep their order: all ranks of a group make them in the same one.
      if (thread_.joinable() && !wait([&] { return waiting_.empty() && !busy_; })) return false;
      return exchange_->carry_out({&call, 1});
    });
  }

  bool fails(const std::string& message) {
    state_.fail(rank(), message);
    return false;
  }

  /// The rank does not compute meanwhile. What it waits for the thread is divided into idle and transfer time as the
  /// thread's time was. `calls`: those that the work carries out; none: it waits for others.
  template <class Work>
  bool counted(std::span<const CollectiveCall> calls, const Work& work) {
    stop_computing();
    const double start = wall_seconds();
    const bool done = work();
    const double end = wall_seconds(), exposed = end - start;
    const RankTimes now = exchanged();
    const double idle = now.idle_seconds - seen_.idle_seconds, moving = now.transfer_seconds - seen_.transfer_seconds;
    const double part = idle + moving > 0 ? std::min(1.0, exposed / (idle + moving)) : 0;
    clock_.times.idle_seconds += part * idle;
    clock_.times.transfer_seconds += part * moving;
    clock_.times.moved_bytes += now.moved_bytes - seen_.moved_bytes;
    seen_ = now;
    for (const CollectiveCall& call : calls)
      if (trace_) trace_->exchanged(call.place, start, end, part * idle);
    clock_.start_compute();
    return done;
  }

  RankTimes exchanged() {
    std::lock_guard lock(mutex_);
    return thread_.joinable() && busy_ ? published_ : exchange_->times();
  }

  /// Sends do not stand behind what else is carried out, and nobody waits for those who receive.
  bool posted_at_once(const CollectiveCall& call) const {
    return thread_.joinable() && call.kind == CollectiveKind::send && exchange_->posts();
  }

  bool post(const CollectiveCall& call) {
    const double start = trace_ ? wall_seconds() : 0;
    if (!exchange_->post(call)) return false;
    const StepPlace place = trace_ ? trace_->place() : StepPlace{};
    // Whoever sends has handed it over; for who receives it counts as long as it is waited for.
    if (trace_ && call.source) trace_->exchanged(place, start, wall_seconds(), 0);
    std::lock_guard lock(mutex_);
    posted_[call.id] = {place, !call.source};
    moving_ = woken_ = true;
    changed_.notify_all();
    return !failed_;
  }

  /// Waits for a send that was posted.
  bool finished(int id) {
    stop_computing();
    const bool done = finish_posted(id);
    clock_.start_compute();
    return done;
  }

  bool finish_posted(int id) {
    Posted posted;
    {
      std::lock_guard lock(mutex_);
      posted = posted_[id];
      posted_.erase(id);
    }
    const double start = trace_ ? wall_seconds() : 0, idle = clock_.times.idle_seconds;
    const bool done = exchange_->finish(id, clock_.times);
    if (trace_ && posted.receives)
      trace_->exchanged(posted.place, start, wall_seconds(), clock_.times.idle_seconds - idle);
    return done;
  }

  // The caller holds mutex_.
  bool under_way(int id) const {
    if (busy_ && current_ == id) return true;
    for (const Bundle& bundle : waiting_)
      if (bundle.id == id) return true;
    return false;
  }

  template <class Condition>
  bool wait(const Condition& condition) {
    std::unique_lock lock(mutex_);
    done_.wait(lock, condition);
    return !failed_;
  }

  void serve() {
    std::unique_lock lock(mutex_);
    while (true) {
      move_posted_on(lock);
      changed_.wait(lock, [&] { return leaving_ || !waiting_.empty() || woken_; });
      woken_ = false;
      if (waiting_.empty() && leaving_) return;
      if (waiting_.empty()) continue;
      const Bundle bundle = std::move(waiting_.front());
      waiting_.pop_front();
      busy_ = true;
      current_ = bundle.id;
      published_ = exchange_->times();
      const bool given_up = failed_;
      lock.unlock();
      const bool done = !given_up && carried_out(bundle);
      lock.lock();
      failed_ = failed_ || !done;
      busy_ = false;
      done_.notify_all();
    }
  }

  /// Messages move on only when they are asked, which takes a little of the rank's core: so not all the time.
  void move_posted_on(std::unique_lock<std::mutex>& lock) {
    constexpr std::chrono::milliseconds between{2};
    while (waiting_.empty() && !leaving_) {
      woken_ = false;
      lock.unlock();
      const bool moving = exchange_->progress();
      lock.lock();
      moving_ = moving || woken_;  // or another was posted meanwhile
      if (!moving_ || state_.aborted()) {
        done_.notify_all();
        return;
      }
      changed_.wait_for(lock, between, [&] { return leaving_ || !waiting_.empty(); });
    }
  }

  bool carried_out(const Bundle& bundle) {
    try {
      const double start = trace_ ? wall_seconds() : 0, idle = exchange_->times().idle_seconds;
      const bool done = exchange_->carry_out(bundle.calls);
      for (const CollectiveCall& call : bundle.calls)
        if (trace_) trace_->beside(call.place, start, wall_seconds(), exchange_->times().idle_seconds - idle);
      return done;
    } catch (const std::exception& error) {
      state_.fail(rank(), error.what(), std::current_exception());
    } catch (...) {
      state_.fail(rank(), "an exchange failed", std::current_exception());
    }
    return false;
  }

  const std::unique_ptr<Exchange> exchange_;
  RunState& state_;
  RankClock clock_;
  std::optional<Bundle> open_;  ///< begun, and not all of its calls made
  RankTimes seen_;              ///< of the exchange, when the rank looked last
  StepTrace* trace_ = nullptr;

  std::mutex mutex_;
  std::condition_variable changed_;  ///< what the thread has to do
  std::condition_variable done_;     ///< what it has done
  std::deque<Bundle> waiting_;
  RankTimes published_;  ///< of the exchange, before what is being carried out
  struct Posted {
    StepPlace place;
    bool receives = false;
  };
  std::map<int, Posted> posted_;  ///< by number: sends that were begun and not waited for
  bool moving_ = false;           ///< some of them are still on their way
  bool woken_ = false;            ///< to move them on
  int current_ = -1;              ///< being carried out, if busy
  bool busy_ = false, failed_ = false, leaving_ = false;
  std::thread thread_;  ///< last: it uses all others
};

}  // namespace

bool may_join(const CollectiveCall& call) {
  const bool kind = call.kind == CollectiveKind::all_reduce || call.kind == CollectiveKind::reduce_scatter ||
                    call.kind == CollectiveKind::all_gather;
  return kind && call.hosts.empty();
}

std::unique_ptr<Communicator> rank_communicator(std::unique_ptr<Exchange> exchange, double duty, RunState& state,
                                                Overlap overlap) {
  return std::make_unique<RankCommunicator>(std::move(exchange), duty, state, overlap);
}

}  // namespace hetsynth
