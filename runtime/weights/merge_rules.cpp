#include "runtime/weights/merge_rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "dsl/base/error.h"
#include "dsl/base/suggest.h"
#include "dsl/model/optimizers.h"
#include "runtime/weights/rules_text.h"

namespace hetsynth {
namespace {

constexpr const char* what_a_merge_is = "{ left = TENSOR, right = TENSOR, product = \"c r, r d -> c d\", scale = 2.0 }";

/// What `action` throws, with the rule's place.
template <class Action>
void at_rule(const std::string& file, int line, const Action& action) {
  try {
    action();
  } catch (const UserError& error) {
    Diagnostic diagnostic = error.diagnostic();
    diagnostic.where = {file, line};
    if (diagnostic.mend.empty()) diagnostic.mend = "docs/weights.md shows such a file";
    throw UserError(std::move(diagnostic), error.code());
  }
}

/// Collects what several checks refuse and tells the error that stands first in the file.
class FirstRefused {
 public:
  template <class Check>
  void of(const Check& check) {
    try {
      check();
    } catch (const UserError& error) {
      if (!error_ || error.diagnostic().where.line < error_->diagnostic().where.line) error_ = error;
    }
  }
  bool any() const { return error_.has_value(); }
  void tell() const {
    if (error_) throw UserError(*error_);
  }

 private:
  std::optional<UserError> error_;
};

/// A number in braces that the parameter's name has not would stand for nothing.
void check_numbers(const std::string& file, int line, const std::string& parameter, const std::string& name) {
  const std::vector<std::string> known = names_in(parameter);
  for (const std::string& number : names_in(name))
    if (number.empty() || std::ranges::find(known, number) == known.end())
      refuse_rule("weights", file, line, "a number in the name of a factor is said nowhere",
                  "those in braces in the parameter's name, " + quote(parameter), quote(name));
}

std::variant<double, std::string> scale_of(const std::string& file, const toml::node& node) {
  if (const auto* text = node.as_string(); text && !text->get().empty()) return text->get();
  const std::optional<double> number = node.is_number() ? node.value<double>() : std::nullopt;
  if (!number || !std::isfinite(*number))
    refuse_rule("weights", file, line_of(node), "the scale is none",
                "a finite number, or the name of a tensor of one element that has it");
  return *number;
}

MergeRule merge_rule_of(const std::string& file, const std::string& parameter, const toml::node& node) {
  const int line = line_of(node);
  const toml::table* table = node.as_table();
  if (!table)
    refuse_rule("weights", file, line, fmt::format("{} has a value of the wrong kind", quote(parameter)),
                what_a_merge_is);
  static const std::vector<std::string> keys = {"left", "right", "product", "scale"};
  for (const auto& [key, value] : in_order(*table))
    if (std::ranges::find(keys, key.str()) == keys.end())
      refuse_rule("weights", file, line_of(value), "a key that means nothing here", "one of " + quoted_list(keys),
                  quote(std::string(key.str())));
  const auto text = [&](const char* key) {
    const toml::node* value = table->get(key);
    const std::string out = value && value->is_string() ? *value->value<std::string>() : "";
    if (out.empty())
      refuse_rule("weights", file, line, fmt::format("the rule does not say {}", key), what_a_merge_is,
                  value ? "a value of the wrong kind, or an empty one" : "");
    return out;
  };
  if (!table->get("scale"))
    refuse_rule("weights", file, line, "the rule does not say scale", "a number, alpha / r, or the tensor that has it");
  std::optional<MergeRule> out;
  at_rule(file, line, [&] {
    out.emplace(MergeRule{parameter, text("left"), text("right"), NamedProduct(text("product")),
                          scale_of(file, *table->get("scale")), line});
  });
  check_numbers(file, line, parameter, out->left);
  check_numbers(file, line, parameter, out->right);
  if (const auto* name = std::get_if<std::string>(&out->scale)) check_numbers(file, line, parameter, *name);
  return *out;
}

}  // namespace

MergeRules MergeRules::load(const std::string& path) {
  const toml::table table = read_toml(path, "rules of weights", "weights");
  MergeRules out;
  out.file_ = path;
  const toml::node* merge = table.get("merge");
  if (!merge || !merge->is_table() || merge->as_table()->empty())
    refuse_rule("weights", path, merge ? line_of(*merge) : 0, "the file does not say what is merged",
                "[merge] with a line for each kind of parameter that has an adapter", "",
                "examples/weights/gpt2-lora.toml is such a file");
  for (const auto& [parameter, node] : in_order(*merge->as_table())) {
    const std::string name(parameter.str());
    const toml::array* list = node.as_array();
    if (!list) {
      out.rules_.push_back(merge_rule_of(path, name, node));
      continue;
    }
    if (list->empty()) refuse_rule("weights", path, line_of(node), "an empty list of products", what_a_merge_is);
    for (const toml::node& one : *list) out.rules_.push_back(merge_rule_of(path, name, one));
  }
  return out;
}

MergedWeights::MergedWeights(const MergeRules& rules, const SafetensorsFile& checkpoint) : rules_(rules) {
  FirstRefused first;
  for (const MergeRule& rule : rules.rules()) first.of([&] { add_rule(rule, checkpoint); });
  first.of([&] { check_all_used(checkpoint); });
  if (terms_.empty() && !first.any())
    refuse_rule("weights", rules.file(), rules.rules().front().line,
                "no rule of [merge] fits a tensor of the checkpoint",
                "names like " + rules.rules().front().parameter + " and " + rules.rules().front().left,
                checkpoint.types().empty() ? "no tensors" : checkpoint.types().begin()->first,
                "take the rules of the model that wrote the checkpoint");
  first.of([&] { check_weights_are_there(checkpoint); });
  first.tell();
}

/// Weights do not come and go as adapters do.
void MergedWeights::check_weights_are_there(const SafetensorsFile& checkpoint) const {
  for (const MergeRule& rule : rules_.rules()) {
    const auto fits = [&](const auto& tensor) { return match(rule.parameter, tensor.first).has_value(); };
    if (std::ranges::any_of(checkpoint.types(), fits)) continue;
    std::vector<std::string> names;
    for (const auto& [name, type] : checkpoint.types()) names.push_back(name);
    std::map<std::string, std::string> first;
    for (const std::string& number : names_in(rule.parameter)) first[number] = "0";
    const std::string near = nearest(filled_in(rule.parameter, first), names);
    refuse_rule("weights", rules_.file(), rule.line,
                fmt::format("no tensor of the checkpoint is called {}", quote(rule.parameter)),
                "the name of a weight that something is added to", near.empty() ? "none like it" : near,
                "mend the name, or take the rules of the model that wrote the checkpoint");
  }
}

void MergedWeights::add_rule(const MergeRule& rule, const SafetensorsFile& checkpoint) {
  const std::map<std::string, TensorType>& types = checkpoint.types();
  for (const auto& [parameter, type] : types) {
    const auto numbers = match(rule.parameter, parameter);
    if (!numbers) continue;
    const auto* scale_name = std::get_if<std::string>(&rule.scale);
    Term term{&rule, filled_in(rule.left, *numbers), filled_in(rule.right, *numbers),
              scale_name ? filled_in(*scale_name, *numbers) : ""};
    const bool has_left = types.contains(term.left), has_right = types.contains(term.right);
    if (!has_left && !has_right) continue;  // a layer without an adapter
    for (const std::string& name : {term.left, term.right, term.scale})
      if (!name.empty()) used_.insert(name);
    const auto lacks = [&](const std::string& name, const std::string& found) {
      refuse_rule("weights", rules_.file(), rule.line,
                  fmt::format("the checkpoint lacks a tensor that is added to {}", parameter), name, found,
                  "take the rules of the model that wrote the checkpoint");
    };
    if (!has_left) lacks(term.left, term.right + " alone");
    if (!has_right) lacks(term.right, term.left + " alone");
    if (!term.scale.empty() && !types.contains(term.scale)) lacks(term.scale, "no such scale");
    for (const std::string& name : {parameter, term.left, term.right, term.scale})
      if (!name.empty() && types.at(name).dtype != DType::f32)
        refuse_rule("weights", rules_.file(), rule.line, fmt::format("{} cannot be part of a sum", name), "float32",
                    text(types.at(name)), "name tensors of weights");
    if (!term.scale.empty() && element_count(types.at(term.scale).shape) != 1)
      refuse_rule("weights", rules_.file(), rule.line, fmt::format("{} is no scale", term.scale),
                  "a tensor of one element", text(types.at(term.scale)), "name the tensor that has alpha / r");
    at_rule(rules_.file(), rule.line, [&] {
      rule.product.check({term.left, types.at(term.left).shape}, {term.right, types.at(term.right).shape},
                         {parameter, type.shape});
    });
    terms_[parameter].push_back(std::move(term));
  }
  if (const auto both = std::ranges::find_if(terms_, [&](const auto& term) { return used_.contains(term.first); });
      both != terms_.end())
    refuse_rule("weights", rules_.file(), rule.line,
                fmt::format("{} is a factor, and has something added", both->first),
                "factors that are no sums themselves", "", "add both products to one parameter, as a list");
}

/// An adapter that is added to nothing would be lost in silence.
void MergedWeights::check_all_used(const SafetensorsFile& checkpoint) const {
  for (const MergeRule& rule : rules_.rules())
    for (const std::string& pattern : {rule.left, rule.right})
      for (const auto& [name, type] : checkpoint.types()) {
        const auto numbers = match(pattern, name);
        if (!numbers || used_.contains(name)) continue;
        refuse_rule("weights", rules_.file(), rule.line, fmt::format("{} is added to nothing", name),
                    "a parameter " + filled_in(rule.parameter, *numbers), "no such tensor in the checkpoint",
                    "take the rules of the model that wrote the checkpoint");
      }
}

/// A rule may find no factors at all, as the model may have no adapters there. That its names are wrong shows in
/// tensors that have no use otherwise, and that multiply to what the rule would add to.
void MergedWeights::check_factors(const WeightMap& map, const SafetensorsFile& checkpoint) const {
  const std::map<std::string, TensorType>& types = checkpoint.types();
  std::vector<std::string> unused;
  for (const auto& [name, type] : types)
    if (!used_.contains(name) && !map.start_of(name) && !types.contains(parameter_of_state(name)) &&
        type.dtype == DType::f32)
      unused.push_back(name);
  for (const MergeRule& rule : rules_.rules()) {
    const auto has_rule = [&](const Term& term) { return term.rule == &rule; };
    if (std::ranges::any_of(terms_, [&](const auto& t) { return std::ranges::any_of(t.second, has_rule); })) continue;
    std::set<Shape> seen;
    for (const auto& [parameter, type] : types) {
      const auto numbers = match(rule.parameter, parameter);
      if (!numbers || !seen.insert(type.shape).second) continue;
      for (const std::string& left : unused)
        for (const std::string& right : unused) {
          if (left == right || !rule.product.multiplies(types.at(left).shape, types.at(right).shape, type.shape))
            continue;
          refuse_rule("weights", rules_.file(), rule.line,
                      fmt::format("nothing of the checkpoint is added to {}, and tensors that could be are unused",
                                  quote(rule.parameter)),
                      fmt::format("{} and {}", filled_in(rule.left, *numbers), filled_in(rule.right, *numbers)),
                      fmt::format("{} and {}", left, right),
                      "mend the names of the factors, or give a rule for those that are found");
        }
    }
  }
}

void MergedWeights::check_named(const WeightMap& map, const SafetensorsFile& checkpoint) const {
  FirstRefused first;
  first.of([&] { check_factors(map, checkpoint); });
  const auto check_exported = [&](const std::string& parameter, int line) {
    if (const auto place = map.place_of(parameter); !place || !place->rule)
      refuse_rule("weights", rules_.file(), line, fmt::format("{} has something added, and is not exported", parameter),
                  "a rule for it in " + map.file(), "",
                  "give the rules of the base weights with --map, and those with [merge] with --merge");
  };
  for (const auto& [parameter, terms] : terms_) first.of([&] { check_exported(parameter, terms.front().rule->line); });
  first.tell();
}

HostTensor MergedWeights::read(SafetensorsFile& checkpoint, const std::string& name) const {
  HostTensor out = checkpoint.read(name);
  const auto found = terms_.find(name);
  if (found == terms_.end()) return out;
  const std::span<float> to = out.as<float>();
  std::vector<double> sums(to.begin(), to.end());
  for (const Term& term : found->second) {
    const double scale =
        term.scale.empty() ? std::get<double>(term.rule->scale) : double(checkpoint.read(term.scale).as<float>()[0]);
    term.rule->product.add(checkpoint.read(term.left), checkpoint.read(term.right), scale, sums, out.type.shape);
  }
  std::ranges::transform(sums, to.begin(), [](double sum) { return float(sum); });
  if (const std::string odd = not_finite(out); !odd.empty())
    refuse_rule("weights", rules_.file(), found->second.front().rule->line,
                fmt::format("{} with what is added to it is beyond float32", name), "finite sums", odd,
                "check the scale");
  return out;
}

}  // namespace hetsynth
