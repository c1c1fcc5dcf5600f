// Tensors of numbers that the model's file gives, or a file beside it.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <memory>
#include <utility>

#include "dsl/base/npy_header.h"
#include "dsl/include/hetsynth/model.h"
#include "dsl/ir/trace.h"

namespace hetsynth {
namespace {

[[noreturn]] void fail(const std::source_location& where, const std::string& message, const std::string& expected,
                       const std::string& found, const std::string& mend) {
  throw UserError({.where = location(where),
                   .tag = "constant",
                   .message = message,
                   .expected = expected,
                   .found = found,
                   .mend = mend});
}

bool fits(double value, bool whole) {
  if (!whole) return std::isfinite(float(value));
  return value >= double(std::numeric_limits<int32_t>::min()) && value <= double(std::numeric_limits<int32_t>::max());
}

void check_values(const std::vector<double>& values, bool whole, const std::source_location& where) {
  const auto odd = std::ranges::find_if(values, [&](double v) { return !fits(v, whole); });
  if (odd == values.end()) return;
  fail(where, fmt::format("element {} is no number that {} holds", odd - values.begin(), whole ? "int32" : "float32"),
       whole ? "whole numbers from -2^31 to 2^31 - 1" : "finite numbers of float32", fmt::format("{}", *odd),
       whole ? "write one of them with a decimal point to have float32"
             : "what hides something is a large finite number, such as -1e9");
}

/// The array of a file, and whether its numbers are whole.
struct NpyArray {
  std::vector<double> values;
  Shape shape;
  bool whole;
};

NpyArray read_npy(const std::string& path) {
  const DataFile file(path);
  const NpyHeader header = read_npy_header(file);
  NpyArray out{{}, header.shape, header.type.whole()};
  std::vector<std::byte> bytes(size_t(file.bytes() - header.data_offset));
  file.read(header.data_offset, bytes);
  const auto size = size_t(header.type.bytes);
  for (size_t at = 0; at < bytes.size(); at += size) {
    const std::span<const std::byte> element = std::span(bytes).subspan(at, size);
    out.values.push_back(out.whole ? double(whole_at(element, header.type)) : real_at(element, header.type));
  }
  return out;
}

}  // namespace

Tensor constant_of(const std::vector<double>& values, bool whole, const Dims& shape, std::source_location where) {
  if (values.empty())
    fail(where, "there is no number", "one number or more", "an empty list", "full(shape, value) fills a tensor");
  if (!is_sane(shape) || element_count(shape) != int64_t(values.size()))
    fail(where, fmt::format("{} numbers do not fill {}", values.size(), text(shape)),
         is_sane(shape) ? fmt::format("{} numbers", element_count(shape)) : "extents of at least 1",
         fmt::format("{}", values.size()), "give a number for each element, row by row");
  check_values(values, whole, where);
  auto kept = std::make_shared<std::vector<double>>(values);
  if (!whole)
    for (double& v : *kept) v = float(v);
  Trace& trace = Trace::current();
  Tensor t = trace.add_leaf(NodeKind::state, "", {shape, whole ? DType::i32 : DType::f32}, where);
  Node& node = trace.program.nodes[size_t(t.node())];
  if (whole) node.data.classes = int64_t(*std::ranges::max_element(*kept)) + 1;
  node.initializer = {.kind = Initializer::Kind::values, .values = std::move(kept)};
  return t;
}

Tensor constant(std::initializer_list<ListedNumber> list, const Dims& shape, std::source_location where) {
  std::vector<double> values;
  for (const ListedNumber& number : list) values.push_back(number.value);
  const bool whole = std::ranges::all_of(list, [](const ListedNumber& number) { return number.whole; });
  return constant_of(values, whole, shape.empty() ? Dims{int64_t(values.size())} : shape, where);
}

Tensor constant(std::initializer_list<std::initializer_list<ListedNumber>> rows, std::source_location where) {
  std::vector<double> values;
  bool whole = true;
  for (const auto& row : rows) {
    if (row.size() != rows.begin()->size())
      fail(where, fmt::format("row {} has another length than row 0", &row - rows.begin()),
           fmt::format("{} numbers", rows.begin()->size()), fmt::format("{}", row.size()),
           "give all rows as many numbers");
    for (const ListedNumber& number : row) {
      values.push_back(number.value);
      whole = whole && number.whole;
    }
  }
  const int64_t columns = rows.size() == 0 ? 0 : int64_t(rows.begin()->size());
  return constant_of(values, whole, {int64_t(rows.size()), columns}, where);
}

Tensor constant(const std::string& npy_file, std::source_location where) {
  const std::filesystem::path folder = std::filesystem::path(Trace::current().program.model_file).parent_path();
  NpyArray array;
  try {
    array = read_npy((folder / npy_file).string());
  } catch (const UserError& error) {
    Diagnostic diagnostic = error.diagnostic();
    diagnostic.tag = "constant";
    diagnostic.notes.push_back({location(where), "the model asks for this file here"});
    throw UserError(std::move(diagnostic), error.code());
  }
  if (array.values.empty())
    fail(where, npy_file + " holds no number", "an array with elements", "shape " + text(array.shape),
         "save the array that is meant");
  return constant_of(array.values, array.whole, array.shape, where);
}

}  // namespace hetsynth
