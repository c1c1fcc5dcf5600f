#include "runtime/data/array_dataset.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace hetsynth {
namespace {

/// Elements that are read from a file at once.
constexpr int64_t elements_at_once = 8192;

const ArrayField::Part& part_of(const ArrayField& field, int64_t* sample) {
  for (const ArrayField::Part& part : field.parts) {
    if (*sample < part.samples) return part;
    *sample -= part.samples;
  }
  internal_failure("sample < samples()", "the sample lies in a file", __FILE__, __LINE__);
}

/// Reads a run of elements of one sample and stores them in the input's type.
class ElementReader {
 public:
  ElementReader(const Node& input, const ArrayField& field, int64_t sample)
      : input_(input), field_(field), sample_(sample), part_(part_of(field, &sample_)) {}

  void read(int64_t element, int64_t count, std::byte* out) {
    const auto size = static_cast<int64_t>(field_.type.bytes);
    std::vector<std::byte> block(static_cast<size_t>(std::min(count, elements_at_once) * size));
    for (int64_t done = 0; done < count;) {
      const int64_t now = std::min(count - done, elements_at_once);
      const auto bytes = std::span(block).first(static_cast<size_t>(now * size));
      offset_ = part_.offset + sample_ * part_.stride_bytes + (element + done) * size;
      part_.file->read(offset_, bytes);
      if (input_.type.dtype == DType::i32) {
        store_integers(bytes, reinterpret_cast<int32_t*>(out) + done);
      } else {
        store_reals(bytes, reinterpret_cast<float*>(out) + done);
      }
      done += now;
    }
  }

 private:
  void store_integers(std::span<const std::byte> bytes, int32_t* out) const {
    const auto size = static_cast<size_t>(field_.type.bytes);
    for (size_t at = 0; at < bytes.size(); at += size) {
      const auto place = [&] { return fmt::format("byte {}", offset_ + static_cast<int64_t>(at)); };
      store_whole(input_, part_.file->path(), place, sample_, whole_at(bytes.subspan(at), field_.type), out++);
    }
  }

  void store_reals(std::span<const std::byte> bytes, float* out) const {
    const auto size = static_cast<size_t>(field_.type.bytes);
    const bool bytes_as_they_are = field_.type == StoredType{};
    for (size_t at = 0; at < bytes.size(); at += size) {
      double value = bytes_as_they_are ? static_cast<double>(std::to_integer<int>(bytes[at]))
                                       : real_at(bytes.subspan(at), field_.type);
      if (field_.pixels) value = (value - 127.5) / 127.5;
      const auto stored = static_cast<float>(value);
      if (!takes_real(input_.data, stored)) {
        throw value_error(input_, part_.file->path(), fmt::format("byte {}", offset_ + static_cast<int64_t>(at)),
                          sample_, fmt::format("{}", value));
      }
      *out++ = stored;
    }
  }

  const Node& input_;
  const ArrayField& field_;
  int64_t sample_;  ///< in its file
  const ArrayField::Part& part_;
  int64_t offset_ = 0;  ///< of the block
};

}  // namespace

ArrayField StoredArray::field() const {
  ArrayField out;
  out.type = type;
  out.elements = 1;
  for (size_t d = 1; d < shape.size(); ++d) out.elements *= shape[0] > 0 ? shape[d] : 0;
  out.parts.push_back({file, data_offset, out.elements * type.bytes, shape.at(0)});
  return out;
}

std::string samples_text(const std::vector<int64_t>& extents, const std::string& more) {
  std::string out = "[samples";
  for (const int64_t extent : extents) out += fmt::format(", {}", extent);
  return out + more + "]";
}

int64_t ArrayField::samples() const {
  int64_t count = 0;
  for (const Part& part : parts) count += part.samples;
  return count;
}

UserError value_error(const Node& input, const std::string& file, const std::string& at, int64_t sample,
                      const std::string& value) {
  const bool marks = input.type.dtype == DType::i32 && value.starts_with('-') && !input.data.ignored &&
                     input.data.kind == DataSource::Kind::named;
  return data_error(file, fmt::format("sample {} has a value that input {} cannot take", sample, input.name),
                    text_of_values(input.data, input.type.dtype), fmt::format("{} at {}", value, at),
                    marks ? fmt::format("mend the data; if {0} marks what counts for nothing, declare the input with "
                                        ".ignored = {0} and the loss with .ignored_label = {0}",
                                        value)
                    : input.data.lowest || input.data.highest ? "mend the data, or declare the input with wider bounds"
                    : input.type.dtype == DType::i32 ? "mend the data, or raise the number of classes in the model"
                                                     : "mend the data, or leave the sample out");
}

UserError number_error(const Node& input, const std::string& file, const std::string& at, int64_t sample,
                       const std::string& found) {
  const bool whole = input.type.dtype == DType::i32;
  return data_error(
      file, fmt::format("sample {} has no {} for input {}", sample, whole ? "whole number" : "number", input.name),
      text_of_values(input.data, input.type.dtype), fmt::format("{} at {}", found, at),
      whole ? "write 3, not 3.0, and a number for what is missing, which the input may ignore"
            : "write a number for what is missing, or leave the sample out");
}

ArrayDataset::ArrayDataset(std::string description, std::map<std::string, ArrayField> fields, bool may_be_empty)
    : description_(std::move(description)), fields_(std::move(fields)) {
  HETSYNTH_CHECK(!fields_.empty(), "a data set has fields");
  const ArrayField& first = fields_.begin()->second;
  for (const auto& [name, field] : fields_) {
    const DataFile& file = *field.parts.front().file;
    if (field.samples() < 1 && !may_be_empty) throw file.error("the file holds no samples");
    if (field.samples() == first.samples()) continue;
    throw file.error("the files of these data do not belong together",
                     fmt::format("{} samples, as in {}", first.samples(), first.parts.front().file->path()),
                     fmt::format("{} samples", field.samples()),
                     "write a row for every sample, in the same order for all inputs");
  }
}

int64_t ArrayDataset::samples(const Node& input) const { return fields_.at(input.name).samples(); }

void ArrayDataset::read(const Node& input, SampleId sample, int64_t inside, int64_t count,
                        std::span<std::byte> out) const {
  const ArrayField& field = fields_.at(input.name);
  std::byte* to = out.data();
  if (field.shifted && inside == 0 && count > 0) {
    *reinterpret_cast<int32_t*>(to) = 1;
    to += sizeof(int32_t);
    --count;
  } else if (field.shifted) {
    --inside;
  }
  if (count > 0) ElementReader(input, field, sample.index).read(field.first + inside, count, to);
}

std::vector<DataTrait> ArrayDataset::traits() const {
  std::vector<DataTrait> out;
  for (const auto& [name, field] : fields_) out.push_back({"type of input " + name, text(field.type)});
  return out;
}

std::string ArrayDataset::description() const {
  return fmt::format("{}, {} samples", description_, fields_.begin()->second.samples());
}

}  // namespace hetsynth
