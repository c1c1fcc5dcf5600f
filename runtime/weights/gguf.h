// The GGUF file format of llama.cpp (https://github.com/ggml-org/ggml/blob/master/docs/gguf.md), version 3: numbered
// entries that describe a model, then its tensors.
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "dsl/base/output_file.h"
#include "runtime/training/safetensors.h"

namespace hetsynth {

/// The value of an entry: one number, truth or text, or a list of such.
using GgufValue = std::variant<uint32_t, float, bool, std::string, std::vector<float>, std::vector<int32_t>,
                               std::vector<std::string>>;
using GgufEntries = std::vector<std::pair<std::string, GgufValue>>;

/// Writes one file, little-endian and aligned to 32 bytes: the entries, and each tensor as `tensor(name)` gives it, one
/// at a time, in float32. Dimensions are listed from the innermost on, as the format has them. The file takes the place
/// of what stood at `path` when it is whole. Throws UserError if the disk refuses, or for a name that is longer than
/// the format's 64 bytes; what `tensor` throws leaves everything as it was.
void write_gguf(const std::string& path, const GgufEntries& entries, const std::vector<TensorEntry>& tensors,
                const std::function<HostTensor(const std::string& name)>& tensor);

/// Files that write_gguf wrote: their first entry says so.
extern const OutputKind gguf_kind;

}  // namespace hetsynth
