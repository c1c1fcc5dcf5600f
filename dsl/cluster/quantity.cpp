#include "dsl/cluster/quantity.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <span>
#include <vector>

#include "dsl/base/suggest.h"

namespace hetsynth {
namespace {

/// A division by a power of ten rounds once, where a product with 1e-6 would round twice: "20 us" is exactly the number
/// 20e-6.
struct Unit {
  std::string_view name;
  double factor;
  double divisor = 1;
};

constexpr double kibi = 1024.0;

// Of each kind the units that quantity_text picks from come first, in rising order.
constexpr Unit memory_units[] = {{"B", 1},
                                 {"KiB", kibi},
                                 {"MiB", kibi* kibi},
                                 {"GiB", kibi* kibi* kibi},
                                 {"TiB", kibi* kibi* kibi* kibi},
                                 {"kB", 1e3},
                                 {"KB", 1e3},
                                 {"MB", 1e6},
                                 {"GB", 1e9},
                                 {"TB", 1e12}};
constexpr size_t memory_shown = 5;
constexpr Unit bandwidth_units[] = {{"B/s", 1},
                                    {"kB/s", 1e3},
                                    {"MB/s", 1e6},
                                    {"GB/s", 1e9},
                                    {"TB/s", 1e12},
                                    {"KB/s", 1e3},
                                    {"KiB/s", kibi},
                                    {"MiB/s", kibi* kibi},
                                    {"GiB/s", kibi* kibi* kibi},
                                    {"TiB/s", kibi* kibi* kibi* kibi},
                                    {"b/s", 1 / 8.0},
                                    {"kb/s", 1e3 / 8},
                                    {"Kb/s", 1e3 / 8},
                                    {"Mb/s", 1e6 / 8},
                                    {"Gb/s", 1e9 / 8},
                                    {"Tb/s", 1e12 / 8}};
constexpr size_t bandwidth_shown = 5;
constexpr Unit compute_units[] = {{"FLOP/s", 1},     {"kFLOP/s", 1e3},  {"MFLOP/s", 1e6}, {"GFLOP/s", 1e9},
                                  {"TFLOP/s", 1e12}, {"PFLOP/s", 1e15}, {"EFLOP/s", 1e18}};
constexpr size_t compute_shown = 7;
constexpr Unit time_units[] = {{"ns", 1, 1e9}, {"us", 1, 1e6},      {"ms", 1, 1e3},
                               {"s", 1},       {"\u00b5s", 1, 1e6}, {"\u03bcs", 1, 1e6}};
constexpr size_t time_shown = 4;

std::span<const Unit> units(Dimension dimension) {
  switch (dimension) {
    case Dimension::memory:
      return memory_units;
    case Dimension::bandwidth:
      return bandwidth_units;
    case Dimension::compute:
      return compute_units;
    case Dimension::time:
      return time_units;
  }
  return {};
}

std::span<const Unit> shown_units(Dimension dimension) {
  switch (dimension) {
    case Dimension::memory:
      return units(dimension).first(memory_shown);
    case Dimension::bandwidth:
      return units(dimension).first(bandwidth_shown);
    case Dimension::compute:
      return units(dimension).first(compute_shown);
    case Dimension::time:
      return units(dimension).first(time_shown);
  }
  return {};
}

ParsedQuantity problem(std::string text, std::string mend) { return {false, 0, std::move(text), std::move(mend)}; }

ParsedQuantity unknown_unit(std::string_view unit, Dimension dimension) {
  std::vector<std::string> names;
  for (const Unit& candidate : units(dimension)) names.emplace_back(candidate.name);
  const std::string usage = fmt::format("write it like \"{}\"", example(dimension));
  if (unit.empty()) return problem("the unit is missing", usage);
  return problem(fmt::format("unknown unit {}", quote(unit)), did_you_mean(unit, names, usage));
}

}  // namespace

std::string_view base_unit(Dimension dimension) {
  switch (dimension) {
    case Dimension::memory:
      return "bytes";
    case Dimension::bandwidth:
      return "bytes per second";
    case Dimension::compute:
      return "FLOP/s";
    case Dimension::time:
      return "seconds";
  }
  return "";
}

std::string_view example(Dimension dimension) {
  switch (dimension) {
    case Dimension::memory:
      return "16 GiB";
    case Dimension::bandwidth:
      return "10 Gb/s";
    case Dimension::compute:
      return "15.7 TFLOP/s";
    case Dimension::time:
      return "20 us";
  }
  return "";
}

ParsedQuantity parse_quantity(std::string_view text, Dimension dimension) {
  const std::string usage = fmt::format("write it like \"{}\"", example(dimension));
  if (!text.empty() && text.front() == '-') return problem("it is negative", usage);
  double number = 0;
  // from_chars reads "inf" and "nan" too, and they begin with a letter; it takes no leading blank or plus.
  const bool digit = !text.empty() && ((text.front() >= '0' && text.front() <= '9') || text.front() == '.');
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error == std::errc::result_out_of_range) return problem("the number is out of range", usage);
  if (!digit || error != std::errc()) return problem("it does not begin with a number", usage);
  std::string_view unit = text.substr(size_t(end - text.data()));
  while (!unit.empty() && unit.front() == ' ') unit.remove_prefix(1);
  for (const Unit& candidate : units(dimension)) {
    if (candidate.name != unit) continue;
    const double value = number * candidate.factor / candidate.divisor;
    if (!std::isfinite(value)) return problem("the number is out of range", usage);
    return {true, value, "", ""};
  }
  return unknown_unit(unit, dimension);
}

std::string quantity_text(double value, Dimension dimension) {
  const auto shown = shown_units(dimension);
  const Unit* best = &shown.front();
  for (const Unit& unit : shown)
    if (std::abs(value) >= unit.factor / unit.divisor * 0.99995) best = &unit;
  return fmt::format("{:.4g} {}", value / best->factor * best->divisor, best->name);
}

}  // namespace hetsynth
