#include "runtime/data/data_parts.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "dsl/base/data_file.h"
#include "runtime/data_files/part_names.h"

namespace hetsynth {
namespace {

/// What is compressed is unpacked into memory, as every sample may be asked for at any time.
constexpr int64_t largest_unpacked = int64_t{2} << 30;

/// Samples of several data sets, numbered through.
class JoinedSamples : public Dataset {
 public:
  JoinedSamples(std::vector<std::unique_ptr<Dataset>> parts, const std::vector<const Node*>& inputs,
                std::string description)
      : parts_(std::move(parts)), description_(std::move(description)) {
    for (const auto& part : parts_) {
      starts_.push_back(samples_);
      samples_ += part->samples(*inputs.front());  // as many as of any other input
    }
  }

  int64_t samples(const Node&) const override { return samples_; }
  void read(const Node& input, SampleId sample, int64_t inside, int64_t count,
            std::span<std::byte> out) const override {
    const auto after = std::ranges::upper_bound(starts_, sample.index);  // behind the last of those that begin there
    const auto part = static_cast<size_t>(after - starts_.begin()) - 1;
    parts_[part]->read(input, {sample.index - starts_[part], sample.epoch_key}, inside, count, out);
  }
  std::string description() const override {
    return fmt::format("{}, {} files, {} samples", description_, parts_.size(), samples_);
  }

 private:
  const std::vector<std::unique_ptr<Dataset>> parts_;
  const std::string description_;
  std::vector<int64_t> starts_;
  int64_t samples_ = 0;
};

/// The files that the format opens one by one.
std::vector<DataPath> all_parts(const DataFormat& format, std::vector<DataPath> named) {
  std::vector<DataPath> out;
  for (DataPath& path : named) {
    if (!path.folder || !format.parts) {
      out.push_back(std::move(path));
      continue;
    }
    const std::vector<std::string> files = format.parts(path);
    check_parts_are_whole(files, path.path);
    for (const std::string& file : files) {
      DataPath part;
      part.path = file;
      part.inputs = path.inputs;
      out.push_back(std::move(part));
    }
  }
  const auto unpacked_left = std::make_shared<int64_t>(largest_unpacked);
  for (size_t i = 0; i < out.size(); ++i) {
    out[i].part = static_cast<int>(i);
    out[i].parts = static_cast<int>(out.size());
    out[i].unpacked_left = unpacked_left;
  }
  return out;
}

std::vector<DataTrait> traits_of(const OpenedData& opened) {
  return std::visit([](const auto& data) { return data->traits(); }, opened);
}

/// The parts that hold what the first one does: samples or tokens.
template <class T>
std::vector<std::unique_ptr<T>> all_of_kind(std::vector<OpenedData> opened, const std::vector<DataPath>& parts) {
  std::vector<std::unique_ptr<T>> out;
  for (size_t i = 0; i < opened.size(); ++i) {
    auto* const data = std::get_if<std::unique_ptr<T>>(&opened[i]);
    if (!data)
      throw data_error(parts[i].path, "this part of the data is of another kind than the first", parts.front().path,
                       "an array of other dimensions", "write all parts alike");
    out.push_back(std::move(*data));
  }
  return out;
}

}  // namespace

std::unique_ptr<Dataset> open_parts(const DataFormat& format, std::vector<DataPath> named, const std::string& path) {
  const std::vector<const Node*> inputs = named.front().inputs;
  const std::vector<DataPath> parts = all_parts(format, std::move(named));
  std::vector<OpenedData> opened;
  for (const DataPath& part : parts) {
    opened.push_back(format.open(part));
    check_alike(parts.front().path, traits_of(opened.front()), part.path, traits_of(opened.back()));
  }
  const bool one = parts.size() == 1;
  if (std::holds_alternative<std::unique_ptr<TokenSequence>>(opened.front())) {
    auto tokens = all_of_kind<TokenSequence>(std::move(opened), parts);
    return std::make_unique<TokenWindows>(one ? std::move(tokens.front()) : joined_tokens(std::move(tokens), path),
                                          inputs, path);
  }
  auto samples = all_of_kind<Dataset>(std::move(opened), parts);
  if (one) return std::move(samples.front());
  auto joined = std::make_unique<JoinedSamples>(std::move(samples), inputs, fmt::format("{} {}", format.name, path));
  if (joined->samples(*inputs.front()) < 1)
    throw data_error(path, "the files hold no samples", "a sample in one of them at least",
                     fmt::format("{} files without", parts.size()));
  return joined;
}

void check_alike(const std::string& first_path, const std::vector<DataTrait>& first, const std::string& path,
                 const std::vector<DataTrait>& traits) {
  for (size_t i = 0; i < std::min(first.size(), traits.size()); ++i) {
    if (first[i].value == traits[i].value || first[i].value.empty() || traits[i].value.empty()) continue;
    const auto shown = [](const DataTrait& trait) { return trait.shown.empty() ? trait.value : trait.shown; };
    throw data_error(path, fmt::format("the parts of the data differ in the {}", first[i].what),
                     fmt::format("{}, as in {}", shown(first[i]), first_path), shown(traits[i]),
                     "write all parts alike, or name those that belong together with a pattern in quotation marks");
  }
}

}  // namespace hetsynth
