// Inputs of a model: leaves that say what data fill them.
#include "dsl/include/hetsynth/data.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <limits>
#include <utility>

#include "dsl/base/suggest.h"
#include "dsl/ir/trace.h"

namespace hetsynth {
namespace {

using Kind = DataSource::Kind;

constexpr int64_t byte_values = 256;
constexpr int64_t most_classes = int64_t{1} << 31;

[[noreturn]] void fail_input(const std::string& name, std::string message, std::string expected, std::string found,
                             std::string mend, const std::source_location& where, const Node* other = nullptr) {
  Diagnostic diagnostic{.where = location(where),
                        .tag = "input",
                        .message = std::move(message),
                        .expected = std::move(expected),
                        .found = std::move(found),
                        .mend = std::move(mend)};
  if (other) diagnostic.notes.push_back({other->where, fmt::format("{} is made here", other->name), ""});
  if (!name.empty()) diagnostic.message = fmt::format("input {}: {}", quote(name), diagnostic.message);
  throw UserError(std::move(diagnostic));
}

/// Inputs with names of the model's own are told apart by these, and have one batch together with all others.
void check_beside(const std::string& name, Kind kind, const Shape& shape, const std::source_location& where) {
  const Trace& trace = Trace::current();
  if (trace.micro_batch > 0) return;  // further micro-batches repeat the first one's inputs
  for (const Node& other : trace.program.nodes) {
    if (other.kind != NodeKind::input || (kind != Kind::named && other.data.kind != Kind::named)) continue;
    if (other.name == name)
      fail_input(name, "a second input has this name", "a name of its own for each: the data are found by it",
                 "the same name again", "give it another name; an input that is used twice is one call", where, &other);
    if (!shape.empty() && !other.type.shape.empty() && other.type.shape[0] != shape[0])
      fail_input(name, "its batch is not that of the other inputs, whose samples belong to its own",
                 fmt::format("{} samples in dimension 0, as {} has", other.type.shape[0], other.name),
                 fmt::format("{}", text(shape)), "give all inputs the same batch", where, &other);
  }
}

Tensor add_input(const std::string& name, DataSource data, TensorType type, const std::source_location& where) {
  Trace& trace = Trace::current();
  check_beside(name, data.kind, type.shape, where);
  Tensor input = trace.add_leaf(NodeKind::input, name, std::move(type), where);
  trace.program.nodes[input.node()].data = data;
  return input;
}

void require_size(const char* tag, const std::string& what, int64_t value, int64_t least,
                  const std::source_location& where) {
  if (value >= least) return;
  throw UserError({.where = location(where),
                   .tag = tag,
                   .message = what + (least == 1 ? " must be positive" : " is too small"),
                   .expected = fmt::format("{} or more", least),
                   .found = std::to_string(value)});
}

void require_positive(const char* tag, std::initializer_list<std::pair<const char*, int64_t>> sizes,
                      const std::source_location& where) {
  for (const auto& [what, value] : sizes) require_size(tag, what, value, 1, where);
}

/// A number of classes: they are counted by int32.
void require_classes(const char* tag, const std::string& what, int64_t value, int64_t least,
                     const std::source_location& where) {
  require_size(tag, what, value, least, where);
  if (value <= most_classes) return;
  throw UserError({.where = location(where),
                   .tag = tag,
                   .message = what + " is too large",
                   .expected = fmt::format("at most {}", most_classes),
                   .found = std::to_string(value)});
}

TextBatch token_inputs(int64_t batch, int64_t length, int64_t vocabulary, bool files,
                       const std::source_location& where) {
  const TensorType type{{batch, length}, DType::i32};
  return {add_input("tokens", {Kind::tokens, length, vocabulary, 0, files}, type, where),
          add_input("targets", {Kind::token_targets, length, vocabulary, 0, files}, type, where)};
}

LabelledBatch image_inputs(const Shape& shape, int64_t classes, bool files, const std::source_location& where) {
  return {add_input("samples", {Kind::image, 0, 0, 0, files}, {shape, DType::f32}, where),
          add_input("labels", {Kind::image_label, 0, classes, 0, files}, {{shape[0]}, DType::i32}, where)};
}

bool is_int32(double value) {
  return std::floor(value) == value && value >= double(std::numeric_limits<int32_t>::min()) &&
         value <= double(std::numeric_limits<int32_t>::max());
}

/// The values an input of int32 takes.
void declare_whole(const std::string& name, const InputOptions& options, const std::source_location& where,
                   DataSource* out) {
  const bool bounds = options.lowest || options.highest;
  if (options.classes == 0 && !(options.lowest && options.highest))
    fail_input(name, "it is not said which integers it takes", "{.classes = N}, or {.lowest = A, .highest = B}",
               bounds ? "one bound" : "neither", "lookups and losses are held against the greatest value", where);
  if (options.classes != 0 && bounds)
    fail_input(name, "its values are said twice", "either .classes or .lowest and .highest", "both", "", where);
  if (options.classes != 0)
    require_classes("input", "the number of classes of " + quote(name), options.classes, 1, where);
  const double lowest = options.lowest.value_or(0), highest = options.highest.value_or(double(options.classes) - 1);
  if (!is_int32(lowest) || !is_int32(highest) || lowest > highest)
    fail_input(name, "its bounds are no range of int32", "whole numbers from -2147483648 to 2147483647, .lowest first",
               fmt::format("{} to {}", lowest, highest), "", where);
  if (options.ignored && !is_int32(double(*options.ignored)))
    fail_input(name, "the value that is ignored is no int32", "-2147483648 to 2147483647",
               fmt::format("{}", *options.ignored), "", where);
  out->classes = std::max<int64_t>(0, static_cast<int64_t>(highest) + 1);
  out->lowest = lowest, out->highest = highest, out->ignored = options.ignored;
}

/// The values an input of float32 takes.
void declare_real(const std::string& name, const InputOptions& options, const std::source_location& where,
                  DataSource* out) {
  if (options.classes != 0 || options.ignored)
    fail_input(name, fmt::format("{} is of integers", options.classes != 0 ? ".classes" : ".ignored"),
               "an input of i32", "one of f32", "declare it as i32, and take to_float(x) where it is computed with",
               where);
  for (const std::optional<double>& bound : {options.lowest, options.highest}) {
    if (bound && !std::isfinite(static_cast<float>(*bound)))
      fail_input(name, "a bound is no float32", "a finite number", fmt::format("{}", *bound),
                 "leave a bound out that there is not", where);
  }
  if (options.lowest && options.highest && *options.lowest > *options.highest)
    fail_input(name, "its bounds are no range", ".lowest first",
               fmt::format("{} to {}", *options.lowest, *options.highest), "", where);
  out->lowest = options.lowest, out->highest = options.highest;
}

}  // namespace

Tensor input(const std::string& name, const std::vector<int64_t>& shape, DType dtype, const InputOptions& options,
             std::source_location where) {
  if (name.empty())
    fail_input(name, "an input needs a name", "the name under which the data have it", "an empty one", "", where);
  if (name.find('/') != std::string::npos)
    fail_input(name, "the name cannot be that of a file", "a name without '/'", quote(name), "give it another name",
               where);
  if (shape.empty())
    fail_input(name, "it has no dimension for the batch", "{batch, ...}", "{}", "a number a sample has shape {batch}",
               where);
  if (dtype != DType::f32 && dtype != DType::i32)
    fail_input(name, "data are read as f32 or i32", "f32 or i32", std::string(hetsynth::name(dtype)),
               "read it as f32 and round it with cast(x, bf16) or cast(x, fp16)", where);
  DataSource data{.kind = Kind::named, .files = true};
  dtype == DType::i32 ? declare_whole(name, options, where, &data) : declare_real(name, options, where, &data);
  return add_input(name, data, {shape, dtype}, where);
}

TextBatch text_batch(int64_t batch, int64_t length, std::source_location where) {
  require_positive("text_batch", {{"batch", batch}, {"length", length}}, where);
  const TensorType type{{batch, length}, DType::i32};
  return {add_input("tokens", {Kind::text_tokens, length, byte_values}, type, where),
          add_input("targets", {Kind::text_targets, length, byte_values}, type, where)};
}

TextBatch text_next_byte(int64_t batch, int64_t length, std::source_location where) {
  require_positive("text_next_byte", {{"batch", batch}, {"length", length}}, where);
  return {add_input("tokens", {Kind::text_tokens, length, byte_values}, {{batch, length}, DType::i32}, where),
          add_input("targets", {Kind::text_next, length, byte_values}, {{batch}, DType::i32}, where)};
}

TextBatch token_batch(int64_t batch, int64_t length, int64_t vocabulary, std::source_location where) {
  require_positive("token_batch", {{"batch", batch}, {"length", length}}, where);
  require_classes("token_batch", "vocabulary", vocabulary, 1, where);
  return token_inputs(batch, length, vocabulary, true, where);
}

TextBatch synthetic_tokens(int64_t batch, int64_t length, int64_t vocabulary, std::source_location where) {
  require_positive("synthetic_tokens", {{"batch", batch}, {"length", length}}, where);
  require_classes("synthetic_tokens", "vocabulary", vocabulary, 1, where);
  return token_inputs(batch, length, vocabulary, false, where);
}

LabelledBatch synthetic_batch(int64_t batch, int64_t features, int64_t classes, std::source_location where) {
  require_positive("synthetic_batch", {{"batch", batch}, {"features", features}}, where);
  require_classes("synthetic_batch", "classes", classes, 1, where);
  return {add_input("samples", {Kind::synthetic_normal, features, 0}, {{batch, features}, DType::f32}, where),
          add_input("labels", {Kind::synthetic_label, features, classes}, {{batch}, DType::i32}, where)};
}

LabelledBatch image_batch(int64_t batch, int64_t channels, int64_t height, int64_t width, int64_t classes,
                          std::source_location where) {
  require_positive("image_batch", {{"batch", batch}, {"channels", channels}, {"height", height}, {"width", width}},
                   where);
  require_classes("image_batch", "classes", classes, 1, where);
  return image_inputs({batch, channels, height, width}, classes, true, where);
}

LabelledBatch synthetic_images(int64_t batch, int64_t channels, int64_t height, int64_t width, int64_t classes,
                               std::source_location where) {
  require_positive("synthetic_images", {{"batch", batch}, {"channels", channels}, {"height", height}, {"width", width}},
                   where);
  require_classes("synthetic_images", "classes", classes, 1, where);
  return image_inputs({batch, channels, height, width}, classes, false, where);
}

LabelledBatch labelled_tokens(int64_t batch, int64_t length, int64_t vocabulary, int64_t classes,
                              std::source_location where) {
  require_positive("labelled_tokens", {{"batch", batch}, {"length", length}}, where);
  require_classes("labelled_tokens", "vocabulary", vocabulary, 1, where);
  require_classes("labelled_tokens", "classes", classes, 1, where);
  return {add_input("tokens", {Kind::tokens, length, vocabulary, 0, true}, {{batch, length}, DType::i32}, where),
          add_input("labels", {Kind::token_label, length, classes, 0, true}, {{batch}, DType::i32}, where)};
}

TranslationBatch translation_batch(int64_t batch, int64_t source_length, int64_t target_length,
                                   int64_t source_vocabulary, int64_t target_vocabulary, std::source_location where) {
  constexpr const char* tag = "translation_batch";
  require_positive(tag, {{"batch", batch}, {"source length", source_length}, {"target length", target_length}}, where);
  require_classes(tag, "the source vocabulary", source_vocabulary, 3, where);
  require_classes(tag, "the target vocabulary", target_vocabulary, 3, where);
  const TensorType source{{batch, source_length}, DType::i32}, target{{batch, target_length}, DType::i32};
  return {add_input("source", {Kind::pair_source, source_length, source_vocabulary, 0, true}, source, where),
          add_input("input", {Kind::pair_input, target_length, target_vocabulary, 0, true}, target, where),
          add_input("targets", {Kind::pair_target, target_length, target_vocabulary, 0, true}, target, where)};
}

TableBatch table_batch(int64_t batch, int64_t numeric_columns, const std::vector<int64_t>& category_sizes,
                       std::source_location where) {
  constexpr const char* tag = "table_batch";
  require_size(tag, "batch", batch, 1, where);
  require_size(tag, "the number of numeric columns", numeric_columns, category_sizes.empty() ? 1 : 0, where);
  TableBatch out;
  if (numeric_columns > 0) {
    const TensorType type{{batch, numeric_columns}, DType::f32};
    out.numeric = add_input("numeric", {Kind::numeric, numeric_columns, 0, 0, true}, type, where);
  }
  for (size_t i = 0; i < category_sizes.size(); ++i) {
    const auto column = static_cast<int64_t>(i);
    require_classes(tag, fmt::format("the size of category {}", i), category_sizes[i], 1, where);
    out.categories.push_back(add_input(fmt::format("category{}", i),
                                       {Kind::category, 1, category_sizes[i], column, true}, {{batch}, DType::i32},
                                       where));
  }
  out.labels = add_input("labels", {Kind::response, 1, 2, 0, true}, {{batch}, DType::f32}, where);
  return out;
}

FeatureBatch feature_batch(int64_t batch, const std::vector<Feature>& features, std::source_location where) {
  constexpr const char* tag = "feature_batch";
  require_size(tag, "batch", batch, 1, where);
  require_size(tag, "the number of feature groups", static_cast<int64_t>(features.size()), 1, where);
  FeatureBatch out;
  int64_t column = 0;
  for (const Feature& feature : features) {
    require_size(tag, "the width of " + feature.name, feature.width, 1, where);
    out.features.push_back(add_input(feature.name, {Kind::numeric, feature.width, 0, column, true},
                                     {{batch, feature.width}, DType::f32}, where));
    column += feature.width;
  }
  out.targets = add_input("targets", {Kind::response, 1, 0, 0, true}, {{batch}, DType::f32}, where);
  return out;
}

}  // namespace hetsynth
