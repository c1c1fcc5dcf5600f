// Samples of files of text, kept as numbers once they were read.
#include <atomic>
#include <cstdint>
#include <cstring>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "runtime/data/formats.h"

namespace hetsynth {
namespace {

/// All samples of one input.
class Column {
 public:
  Column(int64_t samples, int64_t elements)
      : elements_(elements),
        bytes_(new std::byte[static_cast<size_t>(bytes(samples, elements))]),  // pages that nothing is in cost nothing
        states_(static_cast<size_t>(samples)) {}

  static int64_t bytes(int64_t samples, int64_t elements) { return samples * elements * 4; }

  /// A sample's elements; null: they are not there yet.
  const std::byte* find(int64_t sample) const {
    const bool there = states_[static_cast<size_t>(sample)].load(std::memory_order_acquire) == there_;
    return there ? bytes_.get() + bytes(sample, elements_) : nullptr;
  }

  /// Keeps the sample's elements. If several threads have read the same sample, the first of them stores it.
  void store(int64_t sample, std::span<const std::byte> values) {
    std::atomic<uint8_t>& state = states_[static_cast<size_t>(sample)];
    uint8_t expected = missing_;
    if (!state.compare_exchange_strong(expected, being_stored_)) return;
    std::memcpy(bytes_.get() + bytes(sample, elements_), values.data(), values.size());
    state.store(there_, std::memory_order_release);
  }

 private:
  static constexpr uint8_t missing_ = 0, being_stored_ = 1, there_ = 2;

  const int64_t elements_;
  const std::unique_ptr<std::byte[]> bytes_;
  std::vector<std::atomic<uint8_t>> states_;
};

class RowCache : public Dataset {
 public:
  RowCache(std::unique_ptr<Dataset> rows, const std::vector<const Node*>& inputs) : rows_(std::move(rows)) {
    for (const Node* input : inputs)
      columns_.try_emplace(key(*input), rows_->samples(*input), elements_of_sample(*input));
  }

  int64_t samples(const Node& input) const override { return rows_->samples(input); }

  void read(const Node& input, SampleId sample, int64_t inside, int64_t count,
            std::span<std::byte> out) const override {
    const auto column = columns_.find(key(input));
    if (column == columns_.end()) return rows_->read(input, sample, inside, count, out);
    const auto copy = [&](const std::byte* values) {
      std::memcpy(out.data(), values + inside * 4, static_cast<size_t>(count) * 4);
    };
    if (const std::byte* found = column->second.find(sample.index)) return copy(found);
    const int64_t elements = elements_of_sample(input);
    std::vector<std::byte> values(static_cast<size_t>(elements) * 4);
    rows_->read(input, sample, 0, elements, values);
    copy(values.data());
    column->second.store(sample.index, values);
  }

  std::string description() const override { return rows_->description(); }
  TokenOrigin origin() const override { return rows_->origin(); }
  std::vector<DataTrait> traits() const override { return rows_->traits(); }

 private:
  /// Micro-batches of one input have its samples in common.
  using Key = std::pair<std::string, int64_t>;
  static Key key(const Node& input) { return {data_name(input), elements_of_sample(input)}; }

  const std::unique_ptr<Dataset> rows_;
  mutable std::map<Key, Column> columns_;
};

}  // namespace

std::unique_ptr<Dataset> with_row_cache(std::unique_ptr<Dataset> rows, const DataPath& path) {
  int64_t left = path.resident_bytes();
  for (const Node* input : path.inputs) {
    const int64_t elements = elements_of_sample(*input), samples = rows->samples(*input);
    if (samples <= 0 || elements > left / 4 / samples) return rows;
    left -= Column::bytes(samples, elements);
  }
  return std::make_unique<RowCache>(std::move(rows), path.inputs);
}

}  // namespace hetsynth
