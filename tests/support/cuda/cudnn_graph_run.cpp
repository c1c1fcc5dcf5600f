#include "tests/support/cuda/cudnn_graph_run.h"

#include <fmt/format.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <stdexcept>

#include "runtime/cuda/cudnn_numbers.h"

namespace hetsynth::testing_support {
namespace {

namespace cudnn = hetsynth::cuda::cudnn;
using At = std::array<int64_t, 4>;

uint16_t bf16_bits(double value) {
  const auto bits = std::bit_cast<uint32_t>(float(value));
  if (std::isnan(value)) return 0x7fc0;
  return uint16_t((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}
double of_bf16(uint16_t bits) { return double(std::bit_cast<float>(uint32_t(bits) << 16)); }

int64_t offset(const CudnnTensor& t, const At& at) {
  int64_t out = 0;
  for (size_t d = 0; d < 4; ++d) out += at[d] * t.strides[d];
  return out;
}

int64_t last_offset(const CudnnTensor& t) {
  At last;
  for (size_t d = 0; d < 4; ++d) last[d] = t.extents[d] - 1;
  return offset(t, last);
}

template <class Visit>
void each(const std::array<int64_t, 4>& extents, const Visit& visit) {
  At at;
  for (at[0] = 0; at[0] < extents[0]; ++at[0])
    for (at[1] = 0; at[1] < extents[1]; ++at[1])
      for (at[2] = 0; at[2] < extents[2]; ++at[2])
        for (at[3] = 0; at[3] < extents[3]; ++at[3]) visit(at);
}

class Run {
 public:
  Run(const std::map<int64_t, char*>& memory, const std::map<int64_t, float>& values)
      : memory_(memory), values_(values) {}

  void carry_out(const CudnnOperation& op) {
    switch (op.kind) {
      case cudnn::matmul_operation:
        return multiply(op);
      case cudnn::reduction_operation:
        return reduce(op);
      case cudnn::reshape_operation:
        same_[op.y.number] = op.x;
        return;
      case cudnn::pointwise_operation:
        return pointwise(op);
      default:
        throw std::runtime_error(fmt::format("an operation of type {}", op.kind));
    }
  }

 private:
  /// Several heads of the result may share one of an operand; other dimensions of one element stand for all.
  static At within(const CudnnTensor& t, At at, const At& extents) {
    for (size_t d = 0; d < 4; ++d) {
      if (t.extents[d] == extents[d]) continue;
      if (t.extents[d] < 1 || extents[d] % t.extents[d] != 0 || (d != 1 && t.extents[d] != 1))
        throw std::runtime_error(
            fmt::format("tensor {} has {} where {} are asked for", t.number, t.extents[d], extents[d]));
      at[d] /= extents[d] / t.extents[d];
    }
    return at;
  }

  double stored(const CudnnTensor& t, int64_t place) {
    if (const auto other = same_.find(t.number); other != same_.end()) {
      const double value = stored(other->second, place);
      return t.type == cudnn::bfloat16 ? of_bf16(bf16_bits(value)) : value;
    }
    if (t.by_value) return double(values_.at(t.number));
    if (t.is_virtual) return between_.at(t.number).at(size_t(place));
    const char* at = memory_.at(t.number) + place * t.element_bytes();
    if (t.type == cudnn::bfloat16) {
      uint16_t bits;
      std::memcpy(&bits, at, sizeof bits);
      return of_bf16(bits);
    }
    float out;
    std::memcpy(&out, at, sizeof out);
    return double(out);
  }
  double load(const CudnnTensor& t, const At& at, const At& extents) {
    return stored(t, offset(t, within(t, at, extents)));
  }

  void store(const CudnnTensor& t, const At& at, double value) {
    const int64_t place = offset(t, at);
    if (t.is_virtual) {
      std::vector<double>& values = between_[t.number];
      if (values.empty()) values.assign(size_t(last_offset(t) + 1), 0);
      values.at(size_t(place)) = t.type == cudnn::bfloat16 ? of_bf16(bf16_bits(value)) : value;
      return;
    }
    char* to = memory_.at(t.number) + place * t.element_bytes();
    const uint16_t bits = bf16_bits(value);
    const float single = float(value);
    if (t.type == cudnn::bfloat16)
      std::memcpy(to, &bits, sizeof bits);
    else
      std::memcpy(to, &single, sizeof single);
  }

  void multiply(const CudnnOperation& op) {
    if (op.x.extents[3] != op.b.extents[2] || op.x.extents[2] != op.y.extents[2] || op.b.extents[3] != op.y.extents[3])
      throw std::runtime_error(
          fmt::format("tensors {} and {} are no matrices that can be multiplied", op.x.number, op.b.number));
    const int64_t inner = op.x.extents[3];
    At left = op.y.extents, right = op.y.extents;
    left[3] = right[2] = inner;
    each(op.y.extents, [&](const At& at) {
      double sum = 0;
      for (int64_t k = 0; k < inner; ++k)
        sum += load(op.x, {at[0], at[1], at[2], k}, left) * load(op.b, {at[0], at[1], k, at[3]}, right);
      store(op.y, at, sum);
    });
  }

  void reduce(const CudnnOperation& op) {
    const bool largest = op.mode == cudnn::maximum;
    std::map<At, double> results;
    each(op.y.extents, [&](const At& at) { results[at] = largest ? -std::numeric_limits<double>::infinity() : 0; });
    each(op.x.extents, [&](const At& at) {
      double& result = results.at(within(op.y, at, op.x.extents));
      const double value = load(op.x, at, op.x.extents);
      result = largest ? std::max(result, value) : result + value;
    });
    for (const auto& [at, value] : results) store(op.y, at, value);
  }

  void pointwise(const CudnnOperation& op) {
    each(op.y.extents, [&](const At& at) {
      const double x = op.mode == cudnn::index ? double(at[size_t(op.axis)]) : load(op.x, at, op.y.extents);
      const double b = op.has_b ? load(op.b, at, op.y.extents) : 0;
      const bool holds = op.has_condition && load(op.condition, at, op.y.extents) != 0;
      store(op.y, at, result(op.mode, x, b, holds));
    });
  }

  static double result(int mode, double x, double b, bool holds) {
    switch (mode) {
      case cudnn::add:
        return x + b;
      case cudnn::multiply:
        return x * b;
      case cudnn::divide:
        return x / b;
      case cudnn::subtract:
        return x - b;
      case cudnn::exponential:
        return std::exp(x);
      case cudnn::logarithm:
        return std::log(x);
      case cudnn::identity:
      case cudnn::index:
        return x;
      case cudnn::greater_or_equal:
        return x >= b ? 1 : 0;
      case cudnn::select:
        return holds ? x : b;
      default:
        throw std::runtime_error(fmt::format("a pointwise operation of mode {}", mode));
    }
  }

  const std::map<int64_t, char*>& memory_;
  const std::map<int64_t, float>& values_;
  std::map<int64_t, CudnnTensor> same_;             ///< by number: what a reshape shows
  std::map<int64_t, std::vector<double>> between_;  ///< virtual tensors
};

}  // namespace

int64_t CudnnTensor::element_bytes() const { return type == cudnn::bfloat16 ? 2 : 4; }

std::string run_cudnn_graph(const std::vector<CudnnOperation>& operations, const std::map<int64_t, char*>& memory,
                            const std::map<int64_t, float>& values) {
  Run run(memory, values);
  try {
    for (const CudnnOperation& op : operations) run.carry_out(op);
  } catch (const std::out_of_range&) {
    return "an operand that nothing gives";
  } catch (const std::runtime_error& e) {
    return e.what();
  }
  return "";
}

}  // namespace hetsynth::testing_support
