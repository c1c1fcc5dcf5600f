// The functions of one number, or of numbers that threads combine, by name.
#include <unordered_map>

#include "verify/source/text/library.h"

namespace hetsynth::source {
namespace {

struct Known {
  const char* name;
  Helper helper;
};

constexpr Helper of_one(ExprKind kind) { return {Builtin::arithmetic, 1, kind}; }
constexpr Helper met(ExprKind kind, int group, int spread = 1) { return {Builtin::combined, 1, kind, group, spread}; }
constexpr Helper of_two(ExprKind kind) { return {Builtin::arithmetic, 2, kind}; }

constexpr Known known[] = {
    {"", {}},
    {"exp_f32", of_one(ExprKind::exp)},
    {"exp_fast_f32", of_one(ExprKind::exp)},
    {"__builtin_exp", of_one(ExprKind::exp)},
    {"log_f32", of_one(ExprKind::log)},
    {"__builtin_log", of_one(ExprKind::log)},
    {"sqrt_f32", of_one(ExprKind::sqrt)},
    {"__builtin_sqrt", of_one(ExprKind::sqrt)},
    {"tanh_f32", of_one(ExprKind::tanh)},
    {"__builtin_tanh", of_one(ExprKind::tanh)},
    {"erf_f32", of_one(ExprKind::erf)},
    {"__builtin_erf", of_one(ExprKind::erf)},
    {"sin_f32", of_one(ExprKind::sin)},
    {"__builtin_sin", of_one(ExprKind::sin)},
    {"cos_f32", of_one(ExprKind::cos)},
    {"__builtin_cos", of_one(ExprKind::cos)},
    {"floor_f32", of_one(ExprKind::floor)},
    {"__builtin_floor", of_one(ExprKind::floor)},
    {"round_bf16", of_one(ExprKind::round_bf16)},
    {"round_fp16", of_one(ExprKind::round_fp16)},
    {"power_f32", of_two(ExprKind::power)},
    {"__builtin_pow", of_two(ExprKind::power)},
    {"max_f32", of_two(ExprKind::maximum)},
    {"max_f64", of_two(ExprKind::maximum)},
    {"min_f32", of_two(ExprKind::minimum)},
    {"min_f64", of_two(ExprKind::minimum)},
    {"__builtin_inff", {Builtin::infinity, 0}},
    {"__builtin_inf", {Builtin::infinity, 0}},
    {"__builtin_nanf", {Builtin::not_a_number, 1}},
    {"__builtin_nan", {Builtin::not_a_number, 1}},
    {"uniform", {Builtin::uniform, 4}},
    {"philox_uniform", {Builtin::uniform, 4}},
    {"row_sum", {Builtin::row_sum, 2}},
    {"row_max", {Builtin::row_max, 2}},
    {"warp_sum", met(ExprKind::add, 32)},
    {"warp_max", met(ExprKind::maximum, 32)},
    {"lanes16_sum", met(ExprKind::add, 16)},
    {"lanes16_max", met(ExprKind::maximum, 16)},
    {"lanes4_sum", met(ExprKind::add, 4)},
    {"lanes4_max", met(ExprKind::maximum, 4)},
    {"block_sum", met(ExprKind::add, 0)},
    {"block_max", met(ExprKind::maximum, 0)},
    {"stacked_sum", met(ExprKind::add, 0, 32)},
    {"stacked_max", met(ExprKind::maximum, 0, 32)},
};

}  // namespace

int helper_number(const std::string& function) {
  static const std::unordered_map<std::string, int> table = [] {
    std::unordered_map<std::string, int> out;
    for (size_t i = 0; i < std::size(known); ++i) out[known[i].name] = int(i);
    return out;
  }();
  auto found = table.find(function);
  return found == table.end() ? 0 : found->second;
}
const Helper& helper(const std::string& function) { return known[helper_number(function)].helper; }
const Helper& helper(int number) { return known[number].helper; }

}  // namespace hetsynth::source
