#include "runtime/weights/layout.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <set>
#include <span>
#include <utility>

#include "dsl/base/error.h"

namespace hetsynth {
namespace {

[[noreturn]] void refuse(const std::string& text, const std::string& message) {
  throw UserError({.tag = "weights",
                   .message = "the layout " + message,
                   .expected = "dimensions of the model's tensor and of the file's, as \"c h d -> (h d) c\"",
                   .found = "\"" + text + "\""});
}

/// Words and parentheses.
std::vector<std::string> tokens(const std::string& text, const std::string& side) {
  std::vector<std::string> out;
  std::string word;
  const auto close = [&] {
    if (!word.empty()) out.push_back(std::exchange(word, ""));
  };
  for (const char c : side) {
    if (c == ' ' || c == '(' || c == ')') close();
    if (c == '(' || c == ')') out.emplace_back(1, c);
    if (std::isalnum(static_cast<unsigned char>(c)) || c == '_')
      word += c;
    else if (c != ' ' && c != '(' && c != ')')
      refuse(text, fmt::format("has a character that means nothing: {}", c));
  }
  close();
  return out;
}

bool is_number(const std::string& word) {
  return std::ranges::all_of(word, [](unsigned char c) { return std::isdigit(c) != 0; });
}

int64_t number_of(const std::string& text, const std::string& word) {
  int64_t out = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), out);
  if (error != std::errc() || end != word.data() + word.size() || out < 1)
    refuse(text, "joins tensors by a number that is none, or twice");
  return out;
}

}  // namespace

Layout::Layout(const std::string& text, int64_t part) : part_(part) {
  const size_t arrow = text.find("->");
  if (arrow == std::string::npos) refuse(text, "has no arrow");
  read_ours(text, text.substr(0, arrow));
  read_theirs(text, text.substr(arrow + 2));
  if (ours_.empty() || theirs_.empty()) refuse(text, "has nothing on one side");
  for (const std::string& name : separate())
    if (is_number(name)) refuse(text, fmt::format("splits a dimension by {}, which the file has nowhere", name));
  if (part < 0 || part >= joined_)
    refuse(text, fmt::format("joins {} tensors, of which none is number {}", joined_, part));
}

void Layout::read_ours(const std::string& text, const std::string& side) {
  bool inside = false;
  for (const std::string& word : tokens(text, side)) {
    if (word == "(" || word == ")") {
      if (inside == (word == "(")) refuse(text, "has parentheses that do not match");
      if (inside && parts_.back() < 2) refuse(text, "has parentheses on the side of the model around one word");
      inside = word == "(";
      if (inside) parts_.push_back(0);
      continue;
    }
    if (is_number(word)) {
      if (!inside) refuse(text, "has a number on the side of the model that splits nothing");
      number_of(text, word);
    } else if (std::isdigit(static_cast<unsigned char>(word[0]))) {
      refuse(text, "has a name that begins with a digit: " + word);
    } else if (inside && std::ranges::any_of(std::span(ours_).last(size_t(parts_.back())),
                                             [](const std::string& other) { return !is_number(other); })) {
      refuse(text, "has parentheses on the side of the model around more than one name");
    }
    if (std::ranges::find(ours_, word) != ours_.end()) refuse(text, "names a dimension twice: " + word);
    ours_.push_back(word);
    if (!inside) parts_.push_back(0);
    ++parts_.back();
  }
  if (inside) refuse(text, "has parentheses that do not match");
}

void Layout::read_theirs(const std::string& text, const std::string& side) {
  bool inside = false;
  std::set<int> used;
  for (const std::string& word : tokens(text, side)) {
    if (word == "(" || word == ")") {
      if (inside == (word == "(")) refuse(text, "has parentheses that do not match");
      inside = word == "(";
      if (inside) theirs_.emplace_back();
      continue;
    }
    if (!inside) theirs_.emplace_back();
    Factor factor;
    const auto found = std::ranges::find(ours_, word);
    if (found != ours_.end()) {
      factor.dim = int(found - ours_.begin());
      if (!used.insert(factor.dim).second) refuse(text, "names a dimension twice: " + word);
    } else if (std::isdigit(static_cast<unsigned char>(word[0]))) {
      if (joined_ > 1) refuse(text, "joins tensors by a number that is none, or twice");
      factor.extent = joined_ = number_of(text, word);
    } else {
      refuse(text, "has a dimension that the model's tensor has not: " + word);
    }
    theirs_.back().push_back(factor);
  }
  if (inside) refuse(text, "has parentheses that do not match");
}

std::vector<std::string> Layout::separate() const {
  std::vector<std::string> out;
  for (size_t d = 0; d < ours_.size(); ++d) {
    bool there = false;
    for (const std::vector<Factor>& group : theirs_)
      for (const Factor& factor : group) there = there || factor.dim == int(d);
    if (!there) out.push_back(ours_[d]);
  }
  return out;
}

/// The shape with each part of the dimensions that are split by itself.
Shape Layout::split(const Shape& ours) const {
  if (is_same()) return ours;
  if (ours.size() != parts_.size())
    throw UserError({.tag = "weights",
                     .message = "the layout has another number of dimensions than the model's tensor",
                     .expected = fmt::format("{} dimensions", ours.size()),
                     .found = fmt::format("{}", parts_.size())});
  Shape out;
  size_t at = 0;
  for (size_t d = 0; d < ours.size(); ++d) {
    int64_t rest = ours[d];
    const size_t begin = at;
    for (int p = 0; p < parts_[d]; ++p, ++at) {
      out.push_back(is_number(ours_[at]) ? number_of("", ours_[at]) : 0);
      if (out.back() == 0) continue;
      if (rest % out.back() != 0)
        throw UserError({.tag = "weights",
                         .message = "the layout splits a dimension into parts that are not equal",
                         .expected = fmt::format("an extent that {} divides", ours_[at]),
                         .found = fmt::format("{}", ours[d])});
      rest /= out.back();
    }
    for (size_t p = begin; p < at; ++p)
      if (out[p] == 0) out[p] = std::exchange(rest, 1);
    if (rest != 1)
      throw UserError({.tag = "weights",
                       .message = "the layout splits a dimension into numbers whose product is another extent",
                       .found = fmt::format("{}", ours[d])});
  }
  return out;
}

Shape Layout::file_shape(const Shape& whole) const {
  const Shape ours = split(whole);
  if (is_same()) return ours;
  Shape out;
  for (const std::vector<Factor>& group : theirs_) {
    out.push_back(1);
    for (const Factor& factor : group) out.back() *= factor.dim < 0 ? factor.extent : ours[size_t(factor.dim)];
  }
  return out;
}

Layout::Walk Layout::walk(const Shape& whole) const {
  const Shape ours = split(whole);
  Walk out;
  out.shape = ours;
  if (is_same()) {
    out.strides = row_major_strides(ours);
    return out;
  }
  out.strides.assign(ours.size(), 0);
  std::vector<bool> there(ours.size(), false);
  int64_t stride = 1;
  for (size_t g = theirs_.size(); g-- > 0;)
    for (size_t f = theirs_[g].size(); f-- > 0;) {
      const Factor& factor = theirs_[g][f];
      if (factor.dim < 0) {
        out.start = part_ * stride;
        stride *= factor.extent;
      } else {
        out.strides[size_t(factor.dim)] = stride;
        there[size_t(factor.dim)] = true;
        stride *= ours[size_t(factor.dim)];
      }
    }
  for (size_t d = 0; d < ours.size(); ++d)
    if (!there[d]) out.separate.push_back(int(d));
  return out;
}

bool next_index(const Layout::Walk& walk, std::vector<int64_t>& at) {
  for (size_t i = at.size(); i-- > 0;) {
    if (++at[i] < walk.shape[size_t(walk.separate[i])]) return true;
    at[i] = 0;
  }
  return false;
}

void for_each_run(const Layout::Walk& walk, const std::vector<int64_t>& at,
                  const std::function<void(const ElementRun&)>& visit) {
  const Shape& ours = walk.shape;
  HETSYNTH_CHECK(at.size() == walk.separate.size(), "an index for each separate dimension");
  if (element_count(ours) == 0) return;
  const std::vector<int64_t> strides = row_major_strides(ours);
  std::vector<int64_t> first(ours.size(), 0), last = ours;
  for (size_t i = 0; i < at.size(); ++i) {
    first[size_t(walk.separate[i])] = at[i];
    last[size_t(walk.separate[i])] = at[i] + 1;
  }
  ElementRun run;
  if (!ours.empty()) run.count = last.back() - first.back(), run.stride = walk.strides.back();
  std::vector<int64_t> index = first;
  for (bool more = true; more;) {
    run.ours = 0, run.theirs = walk.start;
    for (size_t d = 0; d < index.size(); ++d)
      run.ours += index[d] * strides[d], run.theirs += index[d] * walk.strides[d];
    visit(run);
    more = false;
    for (size_t d = ours.size(); d-- > 0 && !more;) {
      if (d + 1 == ours.size()) continue;  // the run is all of it
      more = ++index[d] < last[d];
      if (!more) index[d] = first[d];
    }
  }
}

}  // namespace hetsynth
