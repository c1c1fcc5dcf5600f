// The convolution generated programs call, through oneDNN.
#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <new>
#include <oneapi/dnnl/dnnl.hpp>
#include <optional>

#include "codegen/interface/abi.h"

namespace hetsynth {
namespace {

using dnnl::memory;

constexpr int image = 0, kernel = 1, result = 2;

struct ImageDimension {
  int64_t image, kernel, result, stride, dilation, padding;
  int64_t reach() const { return (kernel - 1) * dilation + 1; }
};

/// A call, as numbers: everything a primitive depends on.
struct Call {
  int computes;
  int64_t batch, groups, channels, outputs;
  std::array<ImageDimension, 2> dims;
  std::array<std::array<int64_t, 4>, 3> strides;
  auto key() const {
    std::array<int64_t, 29> out{computes, batch, groups, channels, outputs};
    size_t at = 5;
    for (const ImageDimension& d : dims)
      for (int64_t n : {d.image, d.kernel, d.result, d.stride, d.dilation, d.padding}) out[at++] = n;
    for (const auto& of : strides)
      for (int64_t n : of) out[at++] = n;
    return out;
  }
};

Call call_of(int computes, const int64_t* sizes, const int64_t* strides) {
  Call call{computes, sizes[0], sizes[1], sizes[2], sizes[3], {}, {}};
  for (size_t d = 0; d < 2; ++d) {
    const int64_t* s = sizes + 4 + 6 * d;
    call.dims[d] = {s[0], s[1], s[2], s[3], s[4], s[5]};
  }
  for (size_t part = 0; part < 3; ++part) std::copy_n(strides + 4 * part, 4, call.strides[part].begin());
  return call;
}

std::array<int64_t, 4> extents(const Call& c, int part) {
  const auto& [y, x] = c.dims;
  if (part == image) return {c.batch, c.groups * c.channels, y.image, x.image};
  if (part == kernel) return {c.groups * c.outputs, c.channels, y.kernel, x.kernel};
  return {c.batch, c.groups * c.outputs, y.result, x.result};
}

template <class Visit>
void each_element(const std::array<int64_t, 4>& extents, const std::array<int64_t, 4>& strides, const Visit& visit) {
  for (int64_t a = 0; a < extents[0]; ++a)
    for (int64_t b = 0; b < extents[1]; ++b)
      for (int64_t c = 0; c < extents[2]; ++c)
        for (int64_t d = 0; d < extents[3]; ++d)
          visit(a * strides[0] + b * strides[1] + c * strides[2] + d * strides[3]);
}

/// Rows and columns of the image that no window reaches leave the call: first the image begins where the first window
/// does, then it ends where the last one does. `trimmed` is set if there were any.
void trim(Call& call, float*& image_data, bool& trimmed) {
  for (size_t i = 0; i < 2; ++i) {
    ImageDimension& d = call.dims[i];
    if (d.padding < 0) {
      image_data -= d.padding * call.strides[image][2 + i];
      d.image += d.padding;
      d.padding = 0;
      trimmed = true;
    }
    int64_t used = (d.result - 1) * d.stride + d.reach() - d.padding;
    if (used < d.image) d.image = std::max<int64_t>(used, 0), trimmed = true;
  }
}

/// The definition, for what oneDNN does not take.
void plain_convolution(const Call& c, float* i, float* k, float* r) {
  const auto& [y, x] = c.dims;
  const auto &si = c.strides[image], &sk = c.strides[kernel], &sr = c.strides[result];
  for (int64_t n = 0; n < c.batch; ++n)
    for (int64_t o = 0; o < c.groups * c.outputs; ++o)
      for (int64_t channel = 0; channel < c.channels; ++channel)
        for (int64_t row = 0; row < y.result; ++row)
          for (int64_t ky = 0; ky < y.kernel; ++ky) {
            int64_t h = row * y.stride + ky * y.dilation - y.padding;
            if (h < 0 || h >= y.image) continue;
            for (int64_t column = 0; column < x.result; ++column)
              for (int64_t kx = 0; kx < x.kernel; ++kx) {
                int64_t w = column * x.stride + kx * x.dilation - x.padding;
                if (w < 0 || w >= x.image) continue;
                float& in = i[n * si[0] + (o / c.outputs * c.channels + channel) * si[1] + h * si[2] + w * si[3]];
                float& tap = k[o * sk[0] + channel * sk[1] + ky * sk[2] + kx * sk[3]];
                float& out = r[n * sr[0] + o * sr[1] + row * sr[2] + column * sr[3]];
                if (c.computes == image) in += tap * out;
                if (c.computes == kernel) tap += in * out;
                if (c.computes == result) out += in * tap;
              }
          }
}

/// Memory of a thread that grows to what the largest tensor needs.
class Scratch {
 public:
  void* at_least(size_t bytes) {
    if (bytes > bytes_) {
      memory_.reset();
      memory_.reset(::operator new(bytes, alignment));
      bytes_ = bytes;
    }
    return memory_.get();
  }

 private:
  static constexpr std::align_val_t alignment{64};
  struct Free {
    void operator()(void* p) const { ::operator delete(p, alignment); }
  };
  std::unique_ptr<void, Free> memory_;
  size_t bytes_ = 0;
};

/// A primitive with the layouts it likes best, and the reorders from and to ours.
struct Prepared {
  dnnl::primitive primitive;
  struct Part {
    memory ours, theirs;
    bool moved = false;
    dnnl::reorder reorder;
    size_t bytes = 0;
  };
  std::array<Part, 3> parts;
};

class ConvolutionCache {
 public:
  /// nullptr if oneDNN has no implementation.
  Prepared* get(const Call& call) {
    auto [found, fresh] = prepared_.try_emplace(call.key());
    if (fresh) {
      try {
        found->second = std::make_unique<Prepared>(prepare(call));
      } catch (const dnnl::error&) {
        found->second = nullptr;
      }
    }
    return found->second.get();
  }

  void run(Prepared& p, int computes, const std::array<float*, 3>& data) {
    for (size_t part = 0; part < 3; ++part) {
      Prepared::Part& tensor = p.parts[part];
      tensor.ours.set_data_handle(data[part]);
      tensor.theirs.set_data_handle(tensor.moved ? scratch_[part].at_least(tensor.bytes) : data[part]);
      if (tensor.moved && int(part) != computes) tensor.reorder.execute(stream_, tensor.ours, tensor.theirs);
    }
    p.primitive.execute(stream_,
                        {{computes == image ? DNNL_ARG_DIFF_SRC : DNNL_ARG_SRC, p.parts[image].theirs},
                         {computes == kernel ? DNNL_ARG_DIFF_WEIGHTS : DNNL_ARG_WEIGHTS, p.parts[kernel].theirs},
                         {computes == result ? DNNL_ARG_DST : DNNL_ARG_DIFF_DST, p.parts[result].theirs}});
    Prepared::Part& out = p.parts[size_t(computes)];
    if (out.moved) out.reorder.execute(stream_, out.theirs, out.ours);
    stream_.wait();
  }

 private:
  Prepared prepare(const Call& call) {
    std::array<memory::dims, 3> dims;
    std::array<memory::desc, 3> ours, any;
    for (int part = 0; part < 3; ++part) {
      auto e = extents(call, part);
      const auto& s = call.strides[size_t(part)];
      memory::dims shape(e.begin(), e.end()), strides(s.begin(), s.end());
      if (part == kernel && call.groups > 1) {
        shape = {call.groups, call.outputs, e[1], e[2], e[3]};
        strides.insert(strides.begin(), call.outputs * s[0]);
      }
      ours[size_t(part)] = memory::desc(shape, memory::data_type::f32, strides);
      any[size_t(part)] = memory::desc(shape, memory::data_type::f32, memory::format_tag::any);
    }
    memory::dims stride, dilation, before, after;
    for (const ImageDimension& d : call.dims) {
      stride.push_back(d.stride);
      dilation.push_back(d.dilation - 1);
      before.push_back(d.padding);
      after.push_back((d.result - 1) * d.stride + d.reach() - d.padding - d.image);
    }
    using Forward = dnnl::convolution_forward;
    constexpr auto direct = dnnl::algorithm::convolution_direct;
    Forward::primitive_desc forward({dnnl::prop_kind::forward_training, direct, any[image], any[kernel], any[result],
                                     stride, dilation, before, after},
                                    engine_);
    Prepared out;
    auto place = [&](int part, const memory::desc& theirs) {
      Prepared::Part& tensor = out.parts[size_t(part)];
      const memory::desc& mine = ours[size_t(part)];
      tensor.ours = memory(mine, engine_, nullptr);
      tensor.theirs = memory(theirs, engine_, nullptr);
      tensor.moved = theirs != mine;
      tensor.bytes = theirs.get_size();
      if (!tensor.moved) return;
      bool writes = part == call.computes;
      tensor.reorder = dnnl::reorder({engine_, writes ? theirs : mine, engine_, writes ? mine : theirs});
    };
    if (call.computes == result) {
      out.primitive = Forward(forward);
      place(image, forward.src_desc()), place(kernel, forward.weights_desc()), place(result, forward.dst_desc());
    } else if (call.computes == image) {
      dnnl::convolution_backward_data::primitive_desc backward(
          {direct, any[image], any[kernel], any[result], stride, dilation, before, after}, engine_, forward);
      out.primitive = dnnl::convolution_backward_data(backward);
      place(image, backward.diff_src_desc()), place(kernel, backward.weights_desc());
      place(result, backward.diff_dst_desc());
    } else {
      dnnl::convolution_backward_weights::primitive_desc backward(
          {direct, any[image], any[kernel], any[result], stride, dilation, before, after}, engine_, forward);
      out.primitive = dnnl::convolution_backward_weights(backward);
      place(image, backward.src_desc()), place(kernel, backward.diff_weights_desc());
      place(result, backward.diff_dst_desc());
    }
    return out;
  }

  dnnl::engine engine_{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream_{engine_};
  std::map<std::array<int64_t, 29>, std::unique_ptr<Prepared>> prepared_;
  std::array<Scratch, 3> scratch_;
};

}  // namespace
}  // namespace hetsynth

extern "C" void hetsynth_convolution(int computes, const int64_t* sizes, const int64_t* strides, float* image_data,
                                     float* kernel_data, float* result_data) {
  using namespace hetsynth;
  Call call = call_of(computes, sizes, strides);
  std::array<float*, 3> data{image_data, kernel_data, result_data};
  auto whole = extents(call, computes);
  bool trimmed = false;
  trim(call, data[image], trimmed);
  auto clear = [&](float* out) {
    each_element(whole, call.strides[size_t(computes)], [&](int64_t at) { out[at] = 0; });
  };
  bool empty = false;
  for (int part = 0; part < 3; ++part)
    for (int64_t extent : extents(call, part)) empty = empty || extent < 1;
  float* out = computes == image ? image_data : data[size_t(computes)];
  if (empty) return clear(out);
  if (trimmed && computes == image) clear(out);
  thread_local ConvolutionCache cache;
  if (Prepared* prepared = cache.get(call)) return cache.run(*prepared, computes, data);
  clear(out);
  plain_convolution(call, data[image], data[kernel], data[result]);
}
