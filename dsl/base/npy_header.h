// The header of a NumPy array file.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "dsl/base/data_file.h"
#include "dsl/base/element_type.h"

namespace hetsynth {

/// NEP 1 and numpy.lib.format (https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html), versions 1 to
/// 3.
struct NpyHeader {
  StoredType type;
  std::vector<int64_t> shape;  ///< extents of 0 and more; their product and its bytes fit into int64
  int64_t data_offset = 0;     ///< byte of the first element
  std::string comment = {};    ///< behind the dictionary, as Python has them; empty: none
};

/// Whether a file that begins with these bytes says that it is an npy file.
bool begins_like_npy(std::span<const unsigned char> head);

/// Reads the header, and checks that the file holds the array exactly. Throws UserError naming file and byte for
/// anything else than an array of numbers in C order.
NpyHeader read_npy_header(const DataFile& file);

}  // namespace hetsynth
