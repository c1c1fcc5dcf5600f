#include "runtime/weights/named_product.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <sstream>
#include <string_view>
#include <utility>

#include "dsl/base/counted.h"
#include "dsl/base/error.h"
#include "dsl/base/suggest.h"

namespace hetsynth {
namespace {

using Names = std::vector<std::string>;

[[noreturn]] void refuse_product(const std::string& text, const std::string& message) {
  throw UserError({.tag = "weights",
                   .message = "the product " + message,
                   .expected = "dimensions of two factors and of their product, as \"c r, r h d -> c h d\"",
                   .found = quote(text)});
}

Names names_of(const std::string& text, const std::string& side) {
  Names out;
  std::istringstream words(side);
  for (std::string word; words >> word; out.push_back(word)) {
    const bool plain = std::ranges::all_of(word, [](unsigned char c) { return std::isalnum(c) != 0 || c == '_'; }) &&
                       std::isdigit(static_cast<unsigned char>(word[0])) == 0;
    if (!plain) refuse_product(text, fmt::format("has a name of a dimension that is none: {}", quote(word)));
    if (std::ranges::find(out, word) != out.end())
      refuse_product(text, fmt::format("names a dimension of one tensor twice: {}", word));
  }
  return out;
}

bool has(const Names& names, const std::string& name) { return std::ranges::find(names, name) != names.end(); }

/// A loop over one name: its extent, and by how many elements each tensor moves on.
struct Loop {
  int64_t extent = 1;
  int64_t left = 0, right = 0, to = 0;
};

int64_t stride_of(const Names& names, const std::vector<int64_t>& strides, const std::string& name) {
  const auto found = std::ranges::find(names, name);
  return found == names.end() ? 0 : strides[size_t(found - names.begin())];
}

}  // namespace

NamedProduct::NamedProduct(const std::string& text) : text_(text) {
  const size_t comma = text.find(','), arrow = text.find("->");
  if (comma == std::string::npos || arrow == std::string::npos || comma > arrow)
    refuse_product(text, "has no comma between two factors and no arrow behind them");
  left_ = names_of(text, text.substr(0, comma));
  right_ = names_of(text, text.substr(comma + 1, arrow - comma - 1));
  result_ = names_of(text, text.substr(arrow + 2));
  if (left_.empty() || right_.empty() || result_.empty()) refuse_product(text, "has a tensor without dimensions");
  for (const std::string& name : result_)
    if (!has(left_, name) && !has(right_, name))
      refuse_product(text, fmt::format("has a dimension that no factor has: {}", name));
  for (const Names* factor : {&left_, &right_})
    for (const std::string& name : *factor)
      if (!has(result_, name) && !(has(left_, name) && has(right_, name)))
        refuse_product(text, fmt::format("has a dimension that one factor has alone: {}", name));
}

void NamedProduct::check(const Tensor& left, const Tensor& right, const Tensor& result) const {
  struct First {
    int64_t extent;
    const Tensor* tensor;
  };
  std::map<std::string, First> known;
  const auto look_at = [&](const Tensor& tensor, const Names& names) {
    if (tensor.shape.size() != names.size())
      throw UserError({.tag = "weights",
                       .message = fmt::format("the product has another number of dimensions than {}", tensor.name),
                       .expected = counted(int64_t(names.size()), "dimension") + ", as in " + quote(text_),
                       .found = fmt::format("{} of shape {}", tensor.name, text(tensor.shape)),
                       .mend = "let the product name each dimension of the model's tensors"});
    for (size_t d = 0; d < names.size(); ++d) {
      const auto [first, is_new] = known.emplace(names[d], First{tensor.shape[d], &tensor});
      if (is_new || first->second.extent == tensor.shape[d]) continue;
      throw UserError({.tag = "weights",
                       .message = fmt::format("{} and {} do not multiply: {} stands for two extents",
                                              first->second.tensor->name, tensor.name, names[d]),
                       .expected = fmt::format("{} = {}, as in {} of shape {}", names[d], first->second.extent,
                                               first->second.tensor->name, text(first->second.tensor->shape)),
                       .found = fmt::format("{} = {}, in {} of shape {}", names[d], tensor.shape[d], tensor.name,
                                            text(tensor.shape)),
                       .mend = "check the order of the names, and that both tensors are of one adapter"});
    }
  };
  look_at(left, left_);
  look_at(right, right_);
  look_at(result, result_);
}

bool NamedProduct::multiplies(const Shape& left, const Shape& right, const Shape& result) const {
  std::vector<std::pair<std::string_view, int64_t>> known;
  const auto fits = [&](const Shape& shape, const Names& names) {
    if (shape.size() != names.size()) return false;
    for (size_t d = 0; d < names.size(); ++d) {
      const auto first = std::ranges::find(known, names[d], &std::pair<std::string_view, int64_t>::first);
      if (first == known.end())
        known.emplace_back(names[d], shape[d]);
      else if (first->second != shape[d])
        return false;
    }
    return true;
  };
  return fits(left, left_) && fits(right, right_) && fits(result, result_);
}

void NamedProduct::add(const HostTensor& left, const HostTensor& right, double scale, std::span<double> to,
                       const Shape& result) const {
  const std::vector<int64_t> lefts = row_major_strides(left.type.shape), rights = row_major_strides(right.type.shape),
                             tos = row_major_strides(result);
  const auto loop_over = [&](const std::string& name, int64_t extent) {
    return Loop{extent, stride_of(left_, lefts, name), stride_of(right_, rights, name), stride_of(result_, tos, name)};
  };
  // The last dimension of the result is the inner loop, so that results are written one behind the other.
  std::vector<Loop> outer;
  for (size_t d = 0; d + 1 < result_.size(); ++d) outer.push_back(loop_over(result_[d], result[d]));
  for (size_t d = 0; d < left_.size(); ++d)
    if (!has(result_, left_[d])) outer.push_back(loop_over(left_[d], left.type.shape[d]));
  const Loop inner = loop_over(result_.back(), result.back());
  for (const Loop& loop : outer)
    if (loop.extent == 0) return;
  const std::span<const float> a = left.as<float>(), b = right.as<float>();
  std::vector<int64_t> at(outer.size(), 0);
  for (bool more = true; more;) {
    int64_t i = 0, j = 0, k = 0;
    for (size_t d = 0; d < outer.size(); ++d)
      i += at[d] * outer[d].left, j += at[d] * outer[d].right, k += at[d] * outer[d].to;
    for (int64_t n = 0; n < inner.extent; ++n)
      to[size_t(k + n * inner.to)] +=
          scale * (double(a[size_t(i + n * inner.left)]) * double(b[size_t(j + n * inner.right)]));
    more = false;
    for (size_t d = outer.size(); d-- > 0 && !more;) {
      more = ++at[d] < outer[d].extent;
      if (!more) at[d] = 0;
    }
  }
}

}  // namespace hetsynth
