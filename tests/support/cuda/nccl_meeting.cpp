#include "tests/support/cuda/nccl_meeting.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <stdexcept>

#include "runtime/cuda/cuda_api.h"
#include "runtime/rank/half.h"

namespace hetsynth::testing_support {
namespace {

using Kind = NcclOperation::Kind;

double element(const char* data, int64_t at, int type) {
  if (type == cuda::nccl_bfloat16) return reinterpret_cast<const Bf16*>(data)[at];
  if (type == cuda::nccl_float16) return reinterpret_cast<const Fp16*>(data)[at];
  if (type == cuda::nccl_int32) return reinterpret_cast<const int32_t*>(data)[at];
  return reinterpret_cast<const float*>(data)[at];
}

void set_element(char* data, int64_t at, int type, double value) {
  if (type == cuda::nccl_bfloat16)
    reinterpret_cast<Bf16*>(data)[at] = Bf16(float(value));
  else if (type == cuda::nccl_float16)
    reinterpret_cast<Fp16*>(data)[at] = Fp16(float(value));
  else if (type == cuda::nccl_int32)
    reinterpret_cast<int32_t*>(data)[at] = int32_t(value);
  else
    reinterpret_cast<float*>(data)[at] = float(value);
}

/// Adds in float32 in rank order, as a ring would: the order is one of those that NCCL may take.
double combine(double a, double b, int op) {
  switch (op) {
    case cuda::nccl_product:
      return float(a * b);
    case cuda::nccl_max:
      return std::max(a, b);
    case cuda::nccl_min:
      return std::min(a, b);
    default:
      return float(a + b);
  }
}

std::vector<char> reduced(const std::vector<const std::vector<char>*>& sources, int64_t begin, int64_t count,
                          const NcclOperation& call) {
  std::vector<char> out(size_t(count * call.element_bytes()));
  for (int64_t i = 0; i < count; ++i) {
    double value = element(sources[0]->data(), begin + i, call.type);
    for (size_t r = 1; r < sources.size(); ++r)
      value = combine(value, element(sources[r]->data(), begin + i, call.type), call.op);
    set_element(out.data(), i, call.type, call.op == cuda::nccl_average ? value / double(sources.size()) : value);
  }
  return out;
}

}  // namespace

void Clique::arrive() {
  std::lock_guard<std::mutex> lock(mutex_);
  ++arrived_;
}

void Clique::leave() {
  std::lock_guard<std::mutex> lock(mutex_);
  ++left_;
}

void Clique::abort() {
  std::lock_guard<std::mutex> lock(mutex_);
  ++aborted_;
}

bool Clique::complete() const { return size() > 0 && arrived() >= size(); }

int Clique::size() const {
  std::shared_ptr<Clique> parent;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (!parent_) return ranks_;
    parent = parent_;
  }
  std::lock_guard<std::mutex> lock(parent->mutex_);
  const auto split = parent->colors_.find(split_number_);
  if (split == parent->colors_.end() || int(split->second.size()) < parent->ranks_) return 0;
  return int(std::count_if(split->second.begin(), split->second.end(),
                           [this](const auto& entry) { return entry.second.first == color_; }));
}

int Clique::arrived() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return arrived_;
}

std::string Clique::unequal_end() const {
  std::lock_guard<std::mutex> lock(mutex_);
  if (aborted_ == 0 || left_ == 0) return "";
  return fmt::format("{} ranks aborted a communicator that {} left in good order (rule 8)", aborted_, left_);
}

Clique::Split Clique::split(int rank, int color, int key) {
  std::lock_guard<std::mutex> lock(mutex_);
  splits_.resize(size_t(ranks_), 0);
  const int number = splits_[size_t(rank)]++;
  colors_[number][rank] = {color, key};
  return {number};
}

bool Clique::all_called(int number) const {
  std::lock_guard<std::mutex> lock(mutex_);
  const auto calls = colors_.find(number);
  return calls != colors_.end() && int(calls->second.size()) == ranks_;
}

void Clique::made_by(std::shared_ptr<Clique> parent, int number, int color) {
  std::lock_guard<std::mutex> lock(mutex_);
  parent_ = std::move(parent), split_number_ = number, color_ = color;
}

int Clique::rank_of(int parent_rank) const {
  std::lock_guard<std::mutex> lock(parent_->mutex_);
  const auto& entries = parent_->colors_.at(split_number_);
  const int key = entries.at(parent_rank).second;
  return int(std::count_if(entries.begin(), entries.end(), [&](const auto& entry) {
    return entry.second.first == color_ && entry.second.second < key;
  }));
}

void Clique::join(int rank, const std::vector<NcclOperation>& calls, Ticket& ticket) {
  const int ranks = size();
  std::lock_guard<std::mutex> lock(mutex_);
  ticket.begun = true;
  std::vector<NcclOperation> together;
  std::vector<std::vector<char>> sources;
  for (const NcclOperation& call : calls) {
    const size_t bytes = call.source_bytes(ranks, rank);
    if (call.kind == Kind::send) mail_[{rank, call.peer}].push_back({call.type, {call.from, call.from + bytes}});
    if (call.point_to_point()) continue;
    together.push_back(call);
    sources.emplace_back(call.from, call.from + bytes);
  }
  if (together.empty()) return;
  ticket.round = ++next_round_[rank];
  Round& round = rounds_[ticket.round];
  round.calls[rank] = std::move(together);
  round.sources[rank] = std::move(sources);
  try {
    check(round, rank);
  } catch (const std::exception& error) {
    problem_ = error.what();
    throw;
  }
  if (int(round.calls.size()) == ranks) carry_out(round);
}

/// Against the first that came.
void Clique::check(const Round& round, int rank) const {
  const auto& [other, expected] = round.calls.begin()->first == rank ? *round.calls.rbegin() : *round.calls.begin();
  const auto& own = round.calls.at(rank);
  if (own.size() != expected.size())
    throw std::runtime_error(fmt::format("rank {} issues {} collectives in {} where rank {} issues {} (rule 1)", rank,
                                         own.size(), own.front().text(), other, expected.size()));
  for (size_t i = 0; i < own.size(); ++i)
    if (own[i].text() != expected[i].text())
      throw std::runtime_error(fmt::format("rank {} issues {} where rank {} issues {} (rule 1)", rank, own[i].text(),
                                           other, expected[i].text()));
}

void Clique::carry_out(Round& round) const {
  const std::vector<NcclOperation>& calls = round.calls.begin()->second;
  for (size_t i = 0; i < calls.size(); ++i) {
    const NcclOperation& call = calls[i];
    std::vector<const std::vector<char>*> sources;
    for (const auto& [rank, own] : round.sources) sources.push_back(&own[i]);
    for (const auto& [rank, own] : round.sources) {
      std::vector<char> result;
      switch (call.kind) {
        case Kind::all_gather:
          for (const auto* source : sources) result.insert(result.end(), source->begin(), source->end());
          break;
        case Kind::broadcast:
          result = *sources[size_t(call.peer)];
          break;
        case Kind::all_reduce:
          result = reduced(sources, 0, call.count, call);
          break;
        case Kind::reduce:
          if (rank == call.peer) result = reduced(sources, 0, call.count, call);
          break;
        case Kind::reduce_scatter:
          result = reduced(sources, rank * call.count, call.count, call);
          break;
        case Kind::send:
        case Kind::receive:
          break;
      }
      round.results[rank].push_back(std::move(result));
    }
  }
}

bool Clique::ready(int rank, const std::vector<NcclOperation>& calls, Ticket& ticket) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (!problem_.empty()) throw std::runtime_error(problem_);
  if (ticket.round && rounds_[ticket.round].results.empty()) return false;
  std::map<int, size_t> wanted;  // parcels by sender
  for (const NcclOperation& call : calls)
    if (call.kind == Kind::receive && mail_[{call.peer, rank}].size() < ++wanted[call.peer]) return false;
  size_t collective = 0;
  for (const NcclOperation& call : calls) {
    std::vector<char> result;
    if (!call.point_to_point()) result = rounds_[ticket.round].results.at(rank).at(collective++);
    if (call.kind == Kind::receive) {
      Parcel parcel = std::move(mail_[{call.peer, rank}].front());
      mail_[{call.peer, rank}].pop_front();
      if (parcel.type != call.type || int64_t(parcel.data.size()) != call.count * call.element_bytes())
        throw std::runtime_error(fmt::format("rank {} issues {} and rank {} sends {} bytes of type {} (rule 3)", rank,
                                             call.text(), call.peer, parcel.data.size(), parcel.type));
      result = std::move(parcel.data);
    }
    ticket.results.push_back(std::move(result));
  }
  return true;
}

}  // namespace hetsynth::testing_support
