// Data that lie in several files, as one set.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "runtime/data/formats.h"

namespace hetsynth {

/// Opens what was named, of which there are several if a pattern was, and the parts that folders hold. Samples are
/// numbered through in the order of the parts, and windows of tokens go from one to the next, as if they were one file.
/// `path` is what the user named. Throws UserError if parts are missing or do not agree in their traits, if they hold
/// no sample together, and as the format's `open`.
std::unique_ptr<Dataset> open_parts(const DataFormat& format, std::vector<DataPath> named, const std::string& path);

/// Throws UserError naming the part if its traits are not those of the first part.
void check_alike(const std::string& first_path, const std::vector<DataTrait>& first, const std::string& path,
                 const std::vector<DataTrait>& traits);

}  // namespace hetsynth
