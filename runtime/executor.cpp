#include "runtime/executor.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <exception>
#include <limits>
#include <map>
#include <thread>
#include <utility>

#include "dsl/base/error.h"
#include "runtime/collectives/shared_memory_communicator.h"
#include "runtime/data/input_check.h"
#include "runtime/processes/agreement.h"
#include "runtime/processes/step_exchange.h"
#include "runtime/rank/arena.h"
#include "runtime/rank/left_out.h"
#include "runtime/rank/notice.h"
#include "runtime/rank/throttle.h"
#include "runtime/take_over.h"

namespace hetsynth {
namespace {

int64_t bytes_of(const Slot& slot) { return part_elements(slot.ranges) * size_bytes(slot.dtype); }

// The layout comes from the generator; a slot outside of the arena would be memory corruption.
void check_layout(const Program& reference, const DeviceProgram& layout) {
  const auto check = [&](const Slot& slot) {
    HETSYNTH_CHECK(slot.node >= 0 && static_cast<size_t>(slot.node) < reference.nodes.size(),
                   "slot of an existing node");
    HETSYNTH_CHECK(slot.ranges.size() == reference[slot.node].type.shape.size(), "slot with one range per dimension");
    HETSYNTH_CHECK(slot.offset_bytes >= 0 && slot.offset_bytes + bytes_of(slot) <= layout.arena_bytes,
                   "slot inside of the arena");
  };
  for (const Slot& slot : layout.leaves) check(slot);
  for (const Slot& slot : layout.outputs) check(slot);
  if (layout.loss.node >= 0) check(layout.loss);
}

// Too many ranks still compute the right numbers, only not in the time that was planned.
void warn_of_shared_cores(double claimed) {
  if (claimed <= usable_cores() + 0.01) return;
  warn("the devices of this plan claim {:.1f} cores and this process may use {}: steps take longer than planned",
       claimed, usable_cores());
}

/// Gives what communicators have counted between two moments.
RankTimes difference(const RankTimes& now, const RankTimes& before) {
  return {now.compute_seconds - before.compute_seconds, now.throttle_seconds - before.throttle_seconds,
          now.idle_seconds - before.idle_seconds, now.transfer_seconds - before.transfer_seconds,
          now.moved_bytes - before.moved_bytes};
}

ColumnWork difference(const ColumnWork& now, const ColumnWork& before) {
  return {now.flops - before.flops, now.left_out_flops - before.left_out_flops,
          now.product_seconds - before.product_seconds, now.packing_seconds - before.packing_seconds};
}

}  // namespace

struct Executor::Impl {
  struct Rank {
    RankProgram program;
    std::unique_ptr<RankDevice> device;
    std::vector<std::byte> staging = {};           ///< this rank's part of one leaf on its way in
    double data_seconds = 0;                       ///< of the last step
    std::unique_ptr<StepTrace> trace = {};         ///< null: steps are not traced
    RankTrace traced = {};                         ///< the last step
    std::unique_ptr<LeftOutColumns> columns = {};  ///< null: it leaves none out
  };

  Impl(const Program& reference_program, const Mesh& mesh, std::vector<RankProgram> programs,
       const ExecutorOptions& options)
      : reference(reference_program),
        process_of(options.process_of),
        seed(options.seed),
        job(options.job),
        names(names_of(programs)),
        state(names),
        here(ranks_here(options, static_cast<int>(programs.size()))),
        left_out(programs.size(), 0) {
    HETSYNTH_CHECK(static_cast<int>(programs.size()) == mesh.device_count() && !programs.empty(),
                   "one program per rank");
    std::vector<double> duties;
    std::vector<bool> on_gpu;
    for (RankProgram& program : programs) {
      duties.push_back(program.device.duty);
      on_gpu.push_back(program.device.kind == DeviceKind::cuda);
      ranks.push_back({std::move(program), nullptr});
    }
    for (const int rank : here) {
      RankProgram& program = at(rank).program;
      check_layout(reference, program.layout);
      at(rank).device = program.runs_on ? std::move(program.runs_on) : cpu_device(program.step);
    }
    check_host_memory();
    communicators = job ? message_communicators(mesh, duties, state, on_gpu, *job, options.process_of)
                        : shared_memory_communicators(mesh, duties, state, on_gpu);
    for (const int rank : here) {
      Communicator& communicator = *communicators[static_cast<size_t>(rank)];
      at(rank).device->join(state, communicator);
      if (options.may_leave_out && at(rank).program.device.kind == DeviceKind::cpu)
        at(rank).columns = std::make_unique<LeftOutColumns>(at(rank).program.layout);
      if (!options.traced) continue;
      at(rank).trace = std::make_unique<StepTrace>();
      communicator.trace_to(at(rank).trace.get());
    }
    if (options.traced) recent.emplace();
    listen();
    ThreadOptions threading = options.threads;
    if (threading.threads_of_rank.empty() && threading.threads_per_rank == 0)
      for (const Rank& rank : ranks) threading.threads_of_rank.push_back(cores_of(rank.program.device, usable_cores()));
    threads = std::make_unique<RankThreads>(state, threading, here);
    Impl* const owner = options.in_memory_of ? options.in_memory_of->impl_.get() : nullptr;
    threads->run([&](int rank) {
      const int64_t bytes = at(rank).program.layout.arena_bytes;
      if (owner)
        at(rank).device->allocate_in(*owner->at(rank).device, bytes);
      else
        at(rank).device->allocate(bytes);
    });
    arenas = arena_bytes_everywhere();
  }

  static std::vector<int> ranks_here(const ExecutorOptions& options, int ranks) {
    std::vector<int> out;
    for (int rank = 0; rank < ranks; ++rank)
      if (!options.job || options.process_of.at(static_cast<size_t>(rank)) == options.job->process())
        out.push_back(rank);
    HETSYNTH_CHECK(!out.empty(), "a process has a rank");
    return out;
  }

  /// Devices leave together, each on a thread of its own: communicators of GPUs wait for each other.
  ~Impl() {
    if (job) job->on_failure({});
    threads.reset();
    std::vector<std::thread> leaving;
    for (const int rank : here) leaving.emplace_back([this, rank] { at(rank).device.reset(); });
    for (std::thread& thread : leaving) thread.join();
  }

  /// The failure of another process ends the ranks of this one.
  void listen() {
    if (!job) return;
    job->on_failure([this](const ProcessFailure& failure) {
      state.fail(-1, job->describe(failure.process) + " failed: " + failure.message);
    });
  }

  double claimed_cores() const {
    double claimed = 0;
    for (const int rank : here)
      if (const Device& device = ranks[static_cast<size_t>(rank)].program.device; device.kind == DeviceKind::cpu)
        claimed += device.duty;
    return claimed;
  }

  RankMemories memories() const {
    RankMemories out{{}, process_of};
    for (const Rank& rank : ranks)
      out.ranks.push_back(rank.device ? RankMemory{&rank.program.layout, rank.device.get()} : RankMemory{});
    return out;
  }

  /// The arenas of this process's cpu ranks; GPUs look after their own memory.
  int64_t host_bytes() const {
    int64_t bytes = 0;
    for (const int rank : here)
      if (ranks[static_cast<size_t>(rank)].program.device.kind == DeviceKind::cpu)
        bytes += ranks[static_cast<size_t>(rank)].program.layout.arena_bytes;
    return bytes;
  }

  void check_host_memory() const {
    std::vector<std::string> cpus;
    std::vector<int64_t> bytes;
    for (const int number : here) {
      const auto rank = static_cast<size_t>(number);
      if (ranks[rank].program.device.kind != DeviceKind::cpu) continue;
      cpus.push_back(names[rank]);
      bytes.push_back(ranks[rank].program.layout.arena_bytes);
    }
    check_memory(cpus, bytes, usable_memory_bytes());
  }

  static std::vector<std::string> names_of(const std::vector<RankProgram>& programs) {
    std::vector<std::string> out;
    for (const RankProgram& program : programs) out.push_back(program.device.name);
    return out;
  }

  Rank& at(int rank) { return ranks[static_cast<size_t>(rank)]; }

  std::vector<int64_t> arena_bytes_everywhere() const {
    std::vector<int64_t> out;
    for (const Rank& rank : ranks) out.push_back(rank.program.layout.arena_bytes);
    if (job) exchange_by_rank(*job, here, out);
    return out;
  }

  /// Writes a leaf's part: where it lies, or from what `fill` puts into the staging buffer.
  template <typename Fill>
  void stage(Rank& rank, const Slot& slot, const Fill& fill) {
    if (std::byte* const there = rank.device->host_memory(slot.offset_bytes))
      return fill(std::span(there, static_cast<size_t>(bytes_of(slot))));
    rank.staging.resize(static_cast<size_t>(bytes_of(slot)));
    fill(std::span<std::byte>(rank.staging));
    rank.device->write(slot.offset_bytes, rank.staging);
  }

  void initialise(Rank& rank, bool draws_parameters) {
    for (const Slot& slot : rank.program.layout.leaves) {
      const Node& node = reference[slot.node];
      if (node.kind == NodeKind::input || (node.kind == NodeKind::parameter && !draws_parameters)) continue;
      stage(rank, slot, [&](std::span<std::byte> bytes) {
        const auto fill = [&]<typename Element>(Element* values) {
          for_each_run(node.type.shape, slot.ranges, [&](int64_t global, int64_t local, int64_t count) {
            for (int64_t i = 0; i < count; ++i)
              values[local + i] = static_cast<Element>(initial_value(node, seed, global + i));
          });
        };
        if (slot.dtype == DType::i32)
          fill(reinterpret_cast<int32_t*>(bytes.data()));
        else
          fill(reinterpret_cast<float*>(bytes.data()));
      });
    }
  }

  /// `work`: null, or where to say what the step took.
  void step(int rank_number, int64_t step, const BatchSource& data, std::vector<TimedWork>* work = nullptr) {
    Rank& rank = at(rank_number);
    StepTrace* const trace = rank.trace.get();
    if (trace) trace->begin();
    const double start = wall_seconds();
    for (const Slot& slot : rank.program.layout.leaves) {
      const Node& node = reference[slot.node];
      if (node.kind != NodeKind::input) continue;
      stage(rank, slot, [&](std::span<std::byte> bytes) {
        data.fill(node, slot.ranges, step, bytes);
        check_input_values(node, slot.ranges, bytes, step, data.first_sample(node, step), state.describe(rank_number));
      });
    }
    rank.data_seconds = wall_seconds() - start;
    Communicator& communicator = *communicators[static_cast<size_t>(rank_number)];
    HetsynthContext context{};
    context.step = step;
    context.seed = seed;
    context.communicator = &communicator;
    context.trace = trace;
    if (trace) trace->data_are_there();
    communicator.begin_step();
    if (rank.columns) rank.columns->begin_step();
    int result = 0;
    try {
      result = work ? rank.device->profile(context, *work) : rank.device->step(context);
    } catch (const std::exception& error) {
      // Told before it waits for what is under way, which uses the rank's memory.
      state.fail(rank_number, error.what(), std::current_exception());
      communicator.end_step();
      if (rank.columns) rank.columns->end_step();
      throw;
    }
    if (rank.columns) rank.columns->end_step();
    if (trace) trace->mark({});
    communicator.end_step();
    if (trace) rank.traced = trace->end();
    if (result != 0) state.fail(rank_number, fmt::format("the generated step returned {}", result));
  }

  /// The first rank's; NaN in other processes, and if the program has none.
  double loss() const {
    const Rank& rank = ranks.front();
    if (!rank.device) return std::numeric_limits<double>::quiet_NaN();
    if (rank.program.layout.loss.node < 0) return std::numeric_limits<double>::quiet_NaN();
    float value = 0;
    rank.device->read(rank.program.layout.loss.offset_bytes, std::as_writable_bytes(std::span(&value, 1)));
    return value;
  }

  /// By name, of the first rank of this process that holds them; a metric that none holds is left out.
  std::vector<std::pair<std::string, double>> metrics() const {
    std::vector<std::pair<std::string, double>> out;
    for (const NamedOutput& output : reference.outputs) {
      if (!output.metric) continue;
      for (const Rank& rank : ranks) {
        const Slot* slot = rank.device ? find_output(rank, output.node) : nullptr;
        if (!slot) continue;
        float value = 0;
        rank.device->read(slot->offset_bytes, std::as_writable_bytes(std::span(&value, 1)));
        out.emplace_back(output.name, value);
        break;
      }
    }
    return out;
  }

  HostTensor read(NodeId node, const Slot* (*slot_of)(const Rank&, NodeId));

  /// Of the last step, by rank; empty for ranks of other processes.
  std::vector<RankTrace> take_traces() {
    std::vector<RankTrace> out;
    for (Rank& rank : ranks) out.push_back(std::exchange(rank.traced, {}));
    return out;
  }

  /// The slot of a node in a rank's program, nullptr if it has none.
  static const Slot* find(const Rank& rank, NodeId node) {
    const Slot* leaf = find_in(rank.program.layout.leaves, node);
    return leaf ? leaf : find_in(rank.program.layout.outputs, node);
  }

  /// The same of a node that is a named output: of a leaf which the step overwrites, what it was in the step.
  static const Slot* find_output(const Rank& rank, NodeId node) {
    const Slot* output = find_in(rank.program.layout.outputs, node);
    return output ? output : find_in(rank.program.layout.leaves, node);
  }

  static const Slot* find_in(const std::vector<Slot>& slots, NodeId node) {
    const auto found = std::ranges::find(slots, node, &Slot::node);
    return found == slots.end() ? nullptr : &*found;
  }

  const Program reference;
  const ProcessOfRank process_of;
  const uint64_t seed;
  Job* const job;
  const std::vector<std::string> names;
  RunState state;
  const std::vector<int> here;   ///< ranks of this process
  std::vector<double> left_out;  ///< parts of columns, of all ranks
  std::vector<int64_t> arenas;   ///< bytes, of all ranks
  std::vector<std::unique_ptr<Communicator>> communicators;
  std::vector<Rank> ranks;               ///< their devices use the communicators
  std::optional<RecentSteps> recent;     ///< where steps are traced
  std::unique_ptr<RankThreads> threads;  ///< last, so that it ends before what the threads use
};

double StepReport::left_out() const {
  double all = 0, left = 0;
  for (const RankTimes& rank : ranks) {
    all += rank.columns.flops;
    left += rank.columns.left_out_flops;
  }
  return all > 0 ? left / all : 0;
}

Executor::Executor(const Program& reference, const Mesh& mesh, std::vector<RankProgram> programs,
                   const ExecutorOptions& options)
    : impl_(std::make_unique<Impl>(reference, mesh, std::move(programs), options)) {
  warn_of_shared_cores(impl_->claimed_cores());
}
Executor::~Executor() = default;

const Program& Executor::reference() const { return impl_->reference; }
int Executor::ranks() const { return static_cast<int>(impl_->ranks.size()); }
const std::vector<std::string>& Executor::device_names() const { return impl_->names; }
bool Executor::leads() const { return !impl_->job || impl_->job->leads(); }
std::vector<int64_t> Executor::arena_bytes() const { return impl_->arenas; }
uint64_t Executor::seed() const { return impl_->seed; }

void Executor::initialise(bool draws_parameters) {
  impl_->threads->run([&](int rank) { impl_->initialise(impl_->at(rank), draws_parameters); });
}

bool Executor::anywhere(bool here) const {
  if (!impl_->job) return here;
  const std::vector<std::string> all = impl_->job->exchange(here ? "yes" : "no");
  return std::ranges::find(all, "yes") != all.end();
}

StepReport Executor::step(int64_t step, const BatchSource& data) {
  impl_->listen();
  impl_->listen();
  std::vector<RankTimes> before;
  for (const int rank : impl_->here) {
    before.push_back(impl_->communicators[static_cast<size_t>(rank)]->times());
    if (const auto& columns = impl_->at(rank).columns) before.back().columns = columns->work();
  }
  const double start = wall_seconds();
  impl_->threads->run([&](int rank) { impl_->step(rank, step, data); });
  StepReport report;
  report.step = step;
  report.seconds = wall_seconds() - start;
  report.loss = impl_->loss();
  report.metrics = impl_->metrics();
  if (impl_->job) {
    const std::pair<double, double> first = from_first(*impl_->job, std::pair(report.loss, report.seconds));
    report.loss = first.first;
    report.seconds = first.second;
  }
  report.ranks.resize(impl_->ranks.size());
  for (size_t i = 0; i < before.size(); ++i) {
    const auto rank = static_cast<size_t>(impl_->here[i]);
    RankTimes times = difference(impl_->communicators[rank]->times(), before[i]);
    times.data_seconds = impl_->at(impl_->here[i]).data_seconds;
    if (const auto& columns = impl_->at(impl_->here[i]).columns)
      times.columns = difference(columns->work(), before[i].columns);
    times.idle_seconds = std::max(0.0, report.seconds - times.compute_seconds - times.throttle_seconds -
                                           times.transfer_seconds - times.data_seconds);
    report.ranks[rank] = times;
  }
  if (impl_->job) exchange_by_rank(*impl_->job, impl_->here, report.ranks);
  if (impl_->recent) impl_->recent->add({step, report.seconds, impl_->take_traces()});
  return report;
}

void Executor::leave_out(std::vector<double> parts) {
  HETSYNTH_CHECK(int(parts.size()) == ranks(), "a part for each rank");
  for (const int rank : impl_->here) {
    const double part = parts[size_t(rank)];
    HETSYNTH_CHECK(part == 0 || impl_->at(rank).columns, "the rank may leave columns out");
    if (impl_->at(rank).columns) impl_->at(rank).columns->leave_out(part);
  }
  impl_->left_out = std::move(parts);
}

const std::vector<double>& Executor::left_out() const { return impl_->left_out; }

std::optional<MeasuredStep> Executor::measured_step() const {
  if (!impl_->recent || impl_->recent->empty()) return {};
  MeasuredStep out = impl_->recent->usual();
  if (impl_->job) gather(*impl_->job, impl_->here, out);
  count_from_start(out);
  return out;
}

std::vector<std::vector<TimedWork>> Executor::profile(int64_t step, const BatchSource& data) {
  std::vector<std::vector<TimedWork>> work(impl_->ranks.size());
  impl_->threads->run([&](int rank) { impl_->step(rank, step, data, &work[static_cast<size_t>(rank)]); });
  return work;
}

namespace {

/// Throws UserError in all processes if the ranks to come lack memory beside those that are there in one of them.
void check_memory_beside(const ExecutorOptions& options, int64_t there, int64_t to_come) {
  std::string lack;
  if (const int64_t usable = usable_memory_bytes(); there + to_come > usable)
    lack = fmt::format("{} beside the {} of the ranks that are there, of {} usable", text_of_bytes(to_come),
                       text_of_bytes(there), text_of_bytes(usable));
  lack = outcome_of_all(options.job, lack).value();
  if (!lack.empty())
    throw UserError(
        {.tag = "memory", .message = "another division of the work does not fit beside this one", .found = lack},
        ExitCode::failure);
}

}  // namespace

void Executor::go_over(const Mesh& mesh, std::vector<RankProgram> programs, const Migration& migration,
                       const ExecutorOptions& options) {
  HETSYNTH_CHECK(options.seed == impl_->seed && options.job == impl_->job, "the run is the same");
  int64_t bytes = 0;
  for (size_t rank = 0; rank < programs.size(); ++rank)
    if (programs[rank].device.kind == DeviceKind::cpu &&
        (!options.job || options.process_of.at(rank) == options.job->process()))
      bytes += programs[rank].layout.arena_bytes;
  check_memory_beside(options, impl_->host_bytes() + (left_ ? left_->host_bytes() : 0), bytes);
  auto next = std::make_unique<Impl>(impl_->reference, mesh, std::move(programs), options);
  take_over(impl_->reference, impl_->memories(), next->memories(), migration, impl_->job);
  // Of several changes in a row, the ranks that were left first are those to go back to.
  if (left_)
    impl_ = std::move(next), impl_->listen();
  else
    left_ = std::exchange(impl_, std::move(next));
}

void Executor::take_from(const Executor& from, const Migration& migration) {
  HETSYNTH_CHECK(from.impl_->job == impl_->job, "both executors belong to one job");
  // The other program's ranks, with the numbers that this one's reference has for their tensors.
  const std::vector<NodeId> renumbered = renumbering(from.impl_->reference, impl_->reference);
  RankMemories theirs = from.impl_->memories();
  std::vector<DeviceProgram> layouts(theirs.ranks.size());
  for (size_t rank = 0; rank < layouts.size(); ++rank) {
    if (!theirs.ranks[rank].layout) continue;
    for (Slot slot : theirs.ranks[rank].layout->leaves) {
      slot.node = renumbered[size_t(slot.node)];
      if (slot.node >= 0) layouts[rank].leaves.push_back(std::move(slot));
    }
    theirs.ranks[rank].layout = &layouts[rank];
  }
  take_over(impl_->reference, theirs, impl_->memories(), migration, impl_->job);
}

void Executor::stay() {
  if (!left_) return;
  left_.reset();
  impl_->listen();  // those who leave have ended that
}

void Executor::go_back() {
  HETSYNTH_CHECK(left_ != nullptr, "there are ranks to go back to");
  impl_ = std::exchange(left_, nullptr);
  impl_->listen();
}

HostTensor Executor::read(NodeId node) const { return impl_->read(node, Impl::find); }
HostTensor Executor::read_output(NodeId node) const { return impl_->read(node, Impl::find_output); }

HostTensor Executor::Impl::read(NodeId node, const Slot* (*slot_of)(const Rank&, NodeId)) {
  // Every part once: further ranks may hold copies of it, and ranks of other stages hold nothing.
  std::vector<TensorPart> parts;
  for (const int rank : here) {
    const Slot* slot = slot_of(at(rank), node);
    if (!slot || std::ranges::find(parts, slot->ranges, &TensorPart::ranges) != parts.end()) continue;
    parts.push_back({slot->ranges, std::vector<std::byte>(static_cast<size_t>(bytes_of(*slot)))});
    at(rank).device->read(slot->offset_bytes, parts.back().bytes);
  }
  HostTensor out(reference[node].type);
  if (job) parts = exchange_parts(*job, parts);
  HETSYNTH_CHECK(!parts.empty(), "some rank holds " + reference[node].name);
  for (const TensorPart& part : parts) copy_part_in(part.bytes, part.ranges, out);
  return out;
}

void Executor::write(NodeId node, const HostTensor& value) {
  const Node& target = impl_->reference[node];
  if (!(value.type == target.type)) {
    throw UserError(
        {target.where, target.name, "a value of another type cannot be set", text(target.type), text(value.type), ""});
  }
  for (const int number : impl_->here) {
    Impl::Rank& rank = impl_->at(number);
    const Slot* slot = Impl::find(rank, node);
    if (!slot) continue;  // it lies on other stages
    impl_->stage(rank, *slot, [&](std::span<std::byte> part) { copy_part_out(value, slot->ranges, part); });
  }
}

void copy_parameters(const Executor& from, Executor& to) {
  std::map<std::string, NodeId> sources;
  for (const Node& node : from.reference().nodes)
    if (is_kept(node)) sources[node.name] = node.id;
  for (const Node& node : to.reference().nodes) {
    if (!is_kept(node) || is_constant_data(node)) continue;
    const auto found = sources.find(node.name);
    HETSYNTH_CHECK(found != sources.end(), "both programs have " + node.name);
    to.write(node.id, from.read(found->second));
  }
}

}  // namespace hetsynth
