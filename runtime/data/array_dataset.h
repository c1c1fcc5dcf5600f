// Samples of equal size, one after the other in files: npy, IDX, CIFAR.
#pragma once
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "dsl/base/data_file.h"
#include "dsl/base/element_type.h"
#include "runtime/data/dataset.h"

namespace hetsynth {

/// Where an input's part of every sample lies.
struct ArrayField {
  /// Samples in one file.
  struct Part {
    std::shared_ptr<const DataFile> file;
    int64_t offset = 0;        ///< byte of the first sample
    int64_t stride_bytes = 0;  ///< from a sample to the next
    int64_t samples = 0;
  };
  std::vector<Part> parts;
  StoredType type;
  int64_t elements = 0;  ///< per sample in the file
  int64_t first = 0;     ///< of the file's elements is the input's first one
  bool pixels = false;   ///< bytes 0 to 255 become -1 to 1
  bool shifted = false;  ///< element 0 is token 1, element i is the file's element i - 1

  int64_t samples() const;
};

/// An array as a file stores it, samples in dimension 0.
struct StoredArray {
  std::shared_ptr<const DataFile> file;
  StoredType type;
  std::vector<int64_t> shape;
  int64_t data_offset = 0;  ///< byte of the first element
  TokenOrigin origin = {};  ///< of an array of tokens

  /// All elements of all samples.
  ArrayField field() const;
};

/// "[samples, 3, 28, 28]", or with `more` behind it.
std::string samples_text(const std::vector<int64_t>& extents, const std::string& more = "");

class ArrayDataset : public Dataset {
 public:
  /// `fields` by name of input, all with as many samples, at least one unless it may be empty. Throws UserError naming
  /// both files if they have different numbers, or if an input wants whole numbers and the file has none.
  ArrayDataset(std::string description, std::map<std::string, ArrayField> fields, bool may_be_empty);

  int64_t samples(const Node& input) const override;
  void read(const Node& input, SampleId sample, int64_t inside, int64_t count, std::span<std::byte> out) const override;
  std::string description() const override;
  std::vector<DataTrait> traits() const override;

 private:
  std::string description_;
  std::map<std::string, ArrayField> fields_;
};

/// The error of an element that the model cannot take; used by all readers, so that they say it alike. `place`: file;
/// `at`: "byte 17", "line 3".
UserError value_error(const Node& input, const std::string& file, const std::string& at, int64_t sample,
                      const std::string& value);

/// The error of what is no number, or no whole number where the input takes those, in a file of text.
UserError number_error(const Node& input, const std::string& file, const std::string& at, int64_t sample,
                       const std::string& found);

/// Writes a whole number as the input's element `to`, or throws value_error's error if the input does not take it. `at`
/// is called for the error only.
template <class At>
void store_whole(const Node& input, const std::string& file, const At& at, int64_t sample, int64_t value, int32_t* to) {
  if (!takes_whole(input.data, value)) throw value_error(input, file, at(), sample, std::to_string(value));
  *to = static_cast<int32_t>(value);
}

}  // namespace hetsynth
