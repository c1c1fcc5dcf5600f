// Inputs of a model: leaves that say what data fill them.
#include "dsl/include/hetsynth/data.h"

#include <fmt/format.h>

#include <initializer_list>
#include <utility>

#include "dsl/ir/trace.h"

namespace hetsynth {
namespace {

using Kind = DataSource::Kind;

constexpr int64_t byte_values = 256;
constexpr int64_t most_classes = int64_t{1} << 31;

Tensor add_input(const std::string& name, DataSource data, TensorType type, const std::source_location& where) {
  Trace& trace = Trace::current();
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

}  // namespace

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
