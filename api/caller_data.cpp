#include "api/caller_data.h"

#include <fmt/format.h>

#include <cstring>

#include "dsl/base/suggest.h"
#include "runtime/data/input_check.h"
#include "runtime/rank/host_tensor.h"

namespace hetsynth::api {
namespace {

std::vector<std::string> names_of(const std::vector<StepInput>& inputs) {
  std::vector<std::string> out;
  for (const StepInput& input : inputs) out.push_back(input.node.name);
  return out;
}

std::string values_text(int64_t count, bool integer) {
  return fmt::format("{} values of {}", count, integer ? "int32" : "float32");
}

/// The values that are meant for an input, if they are of its type and number.
template <class T>
std::span<const std::byte> values_for(const std::vector<StepInput>& inputs, const std::string& name,
                                      std::span<const T> values) {
  const auto input =
      std::ranges::find_if(inputs, [&](const StepInput& candidate) { return candidate.node.name == name; });
  if (input == inputs.end())
    throw UserError({.tag = "data",
                     .message = fmt::format("the model has no input {}", quote(name)),
                     .expected = quoted_list(names_of(inputs)),
                     .mend = did_you_mean(name, names_of(inputs))});
  constexpr bool integer = std::is_same_v<T, int32_t>;
  const bool wants_integers = input->node.type.dtype == DType::i32;
  if (integer != wants_integers || static_cast<int64_t>(values.size()) != input->elements)
    throw UserError(
        {.where = input->node.where,
         .tag = "data",
         .message = fmt::format("what the program gives for input {} does not fit it", name),
         .expected =
             fmt::format("{}, {} for a step", values_text(input->elements, wants_integers), text(input->node.type)),
         .found = values_text(static_cast<int64_t>(values.size()), integer),
         .mend = "hand over all samples of the step, row-major; a smaller batch is another model and plan"});
  return std::as_bytes(values);
}

int64_t scaled(int64_t samples, int64_t of, int64_t to) {
  return of == 0 ? 0 : static_cast<int64_t>(static_cast<__int128>(samples) * to / of);
}

}  // namespace

CallerData::CallerData(const std::vector<StepInput>& inputs, RunPlace place) : inputs_(inputs), place_(place) {}

void CallerData::check(const StepInput& input, int64_t step) const {
  std::vector<Range> all;
  for (const int64_t extent : input.node.type.shape) all.push_back({0, extent});
  check_input_values(input.node, all, values_.at(input.node.name), step, first_sample(input.node, step),
                     "data of the program");
}

void CallerData::take(const Batch& batch, int64_t step) {
  values_.clear();
  for (const auto& [name, values] : batch.floats()) values_[name] = values_for(inputs_, name, values);
  for (const auto& [name, values] : batch.integers()) values_[name] = values_for(inputs_, name, values);
  for (const StepInput& input : inputs_) {
    if (!values_.contains(input.node.name))
      throw UserError(
          {.where = input.node.where,
           .tag = "data",
           .message = fmt::format("input {} has no values in the batch of the program", input.node.name),
           .expected = fmt::format("{}, {}", values_text(input.elements, input.node.type.dtype == DType::i32),
                                   text(input.node.type)),
           .mend = fmt::format("batch.set({}, values)", quote(input.node.name))});
    check(input, step);
  }
}

void CallerData::take(const SampleSource& source, int64_t step) {
  for (const StepInput& input : inputs_) {
    std::vector<std::byte>& bytes = written_[input.node.name];
    bytes.assign(static_cast<size_t>(input.elements) * sizeof(float), std::byte{0});
    SampleRequest request{input.node.name, first_sample(input.node, step), input.samples, {}, {}};
    if (input.node.type.dtype == DType::i32)
      request.integers = {reinterpret_cast<int32_t*>(bytes.data()), static_cast<size_t>(input.elements)};
    else
      request.floats = {reinterpret_cast<float*>(bytes.data()), static_cast<size_t>(input.elements)};
    source(request);
    values_[input.node.name] = bytes;
    check(input, step);
  }
}

void CallerData::fill(const Node& input, std::span<const Range> ranges, int64_t /*step*/,
                      std::span<std::byte> out) const {
  const std::span<const std::byte> whole = values_.at(data_name(input));
  const auto size = static_cast<size_t>(size_bytes(input.type.dtype));
  const int64_t samples = sample_count(input);
  const int64_t per_sample = samples == 0 ? 0 : element_count(input.type.shape) / samples;
  const int64_t before = global_sample(input, 0, 0) * per_sample;  // micro-batches lie one behind the other
  for_each_run(input.type.shape, ranges, [&](int64_t global, int64_t local, int64_t count) {
    std::memcpy(out.data() + static_cast<size_t>(local) * size,
                whole.data() + static_cast<size_t>(before + global) * size, static_cast<size_t>(count) * size);
  });
}

int64_t CallerData::first_sample(const Node& input, int64_t step) const {
  if (step < place_.first_step) return global_sample(input, step, 0);
  const int64_t per_step = global_sample(input, 1, 0) - global_sample(input, 0, 0);
  return scaled(place_.seen_samples, inputs_.front().samples, per_step) +
         global_sample(input, step - place_.first_step, 0);
}

}  // namespace hetsynth::api
