// Training step of classifier.cpp, rank 1 of 3: device gpu1 (A100, sm_80). Kernels.

// cuda_classifier.h:11  t.add = add(t.einsum, b)
// cuda_classifier.h:12  t.max = max(t.add)
// cuda_classifier.h:12  t.exp_sum = exp_sum(t.add, t.max)
// cuda_classifier.h:12  t.pick = pick(t.add, labels)
// cuda_classifier.h:12  d_t.add = cross_entropy_gradient(t.add, t.max, t.exp_sum, labels, d_t.mul)
// 21 rows of 8, one thread for each row
extern "C" __global__ void __launch_bounds__(256) compute_d_t_add(const float* __restrict__ t_einsum, const float* __restrict__ b, const int* __restrict__ labels, float* __restrict__ t_max, float* __restrict__ t_pick, float* __restrict__ t_exp_sum, float* __restrict__ d_t_add) {
  for (int row = (int)blockIdx.x * 256 + threadIdx.x; row < 21; row += (int)gridDim.x * 256) {
    float t_max_ = -__builtin_inff();
    float t_pick_ = 0.0f;
    for (int start = 0; start < 8; start += 4) {
      float b_four[4];
      load4(b_four, b + start);
      float t_einsum_four[4];
      load4(t_einsum_four, t_einsum + row * 8 + start);
      #pragma unroll
      for (int v = 0; v < 4; ++v) {
        const int column = start + v;
        const float t_add_ = t_einsum_four[v] + b_four[v];
        t_max_ = max_f32(t_max_, t_add_);
        t_pick_ += (labels[row] == column ? t_add_ : 0.0f);
      }
    }
    t_max[row] = t_max_;
    t_pick[row] = t_pick_;
    float t_exp_sum_ = 0.0f;
    for (int start = 0; start < 8; start += 4) {
      float b_four[4];
      load4(b_four, b + start);
      float t_einsum_four[4];
      load4(t_einsum_four, t_einsum + row * 8 + start);
      #pragma unroll
      for (int v = 0; v < 4; ++v) {
        const float t_add_ = t_einsum_four[v] + b_four[v];
        t_exp_sum_ += exp_f32(t_add_ - t_max_);
      }
    }
    t_exp_sum[row] = t_exp_sum_;
    for (int start = 0; start < 8; start += 4) {
      float b_four[4];
      load4(b_four, b + start);
      float t_einsum_four[4];
      load4(t_einsum_four, t_einsum + row * 8 + start);
      float d_t_add_result[4];
      #pragma unroll
      for (int v = 0; v < 4; ++v) {
        const int column = start + v;
        const float t_add_ = t_einsum_four[v] + b_four[v];
        const float d_t_add_ = (exp_f32(t_add_ - t_max_) / t_exp_sum_ - (labels[row] == column ? 1.0f : 0.0f)) * 0.015625f;
        d_t_add_result[v] = d_t_add_;
      }
      store4(d_t_add + row * 8 + start, d_t_add_result);
    }
  }
}

// cuda_classifier.h:12  t.nll_sum = nll_sum(t.exp_sum, t.max, t.pick)
// cuda_classifier.h:12  t.mul = mul(t.nll_sum)
// 1 rows of 21, one warp for each row
extern "C" __global__ void __launch_bounds__(256) compute_t_mul(const float* __restrict__ t_exp_sum, const float* __restrict__ t_max, const float* __restrict__ t_pick, float* __restrict__ t_mul) {
  const int lane = threadIdx.x % 32;
  for (int row = (int)blockIdx.x * 8 + threadIdx.x / 32; row < 1; row += (int)gridDim.x * 8) {
    float t_nll_sum_ = 0.0f;
    for (int column = lane; column < 21; column += 32) {
      const int at = row * 21 + column;
      t_nll_sum_ += log_f32(t_exp_sum[at]) + t_max[at] - t_pick[at];
    }
    t_nll_sum_ = warp_sum(t_nll_sum_);
    const float t_mul_ = t_nll_sum_ * 0.015625f;
    if (lane == 0) t_mul[row] = t_mul_;
  }
}

// cuda_classifier.h:11  d_b = sum(d_t.add)
// 8 rows of 21, one thread for each row
extern "C" __global__ void __launch_bounds__(256) compute_d_b(const float* __restrict__ d_t_add, float* __restrict__ d_b) {
  for (int row = (int)blockIdx.x * 256 + threadIdx.x; row < 8; row += (int)gridDim.x * 256) {
    float d_b_ = 0.0f;
    #pragma unroll 4
    for (int column = 0; column < 21; column += 1) {
      const int at = column * 8 + row;
      d_b_ += d_t_add[at];
    }
    d_b[row] = d_b_;
  }
}

// cuda_classifier.h:13  w.velocity.next = sgd_velocity(w.velocity, d_w)
// cuda_classifier.h:13  w.next = sgd_parameter(w, w.velocity.next)
// 96 elements, four per thread at a time
extern "C" __global__ void __launch_bounds__(256) compute_w_next(float* w_velocity, const float* __restrict__ d_w_reduced, float* w) {
  for (int first = 4 * ((int)blockIdx.x * 256 + threadIdx.x); first < 96; first += (int)gridDim.x * 1024) {
    float d_w_reduced_four[4];
    load4(d_w_reduced_four, d_w_reduced + first);
    float w_four[4];
    load4(w_four, w + first);
    float w_velocity_four[4];
    load4(w_velocity_four, w_velocity + first);
    float w_velocity_result[4];
    float w_result[4];
    #pragma unroll
    for (int v = 0; v < 4; ++v) {
      const float w_velocity_next_ = 0.9f * w_velocity_four[v] + d_w_reduced_four[v];
      w_velocity_result[v] = w_velocity_next_;
      const float w_next_ = w_four[v] - 0.1f * w_velocity_next_;
      w_result[v] = w_next_;
    }
    store4(w_velocity + first, w_velocity_result);
    store4(w + first, w_result);
  }
}

// cuda_classifier.h:13  b.velocity.next = sgd_velocity(b.velocity, d_b)
// cuda_classifier.h:13  b.next = sgd_parameter(b, b.velocity.next)
// 8 elements, four per thread at a time
extern "C" __global__ void __launch_bounds__(256) compute_b_next(float* b_velocity, const float* __restrict__ d_b_reduced, float* b) {
  for (int first = 4 * ((int)blockIdx.x * 256 + threadIdx.x); first < 8; first += (int)gridDim.x * 1024) {
    float b_four[4];
    load4(b_four, b + first);
    float b_velocity_four[4];
    load4(b_velocity_four, b_velocity + first);
    float d_b_reduced_four[4];
    load4(d_b_reduced_four, d_b_reduced + first);
    float b_velocity_result[4];
    float b_result[4];
    #pragma unroll
    for (int v = 0; v < 4; ++v) {
      const float b_velocity_next_ = 0.9f * b_velocity_four[v] + d_b_reduced_four[v];
      b_velocity_result[v] = b_velocity_next_;
      const float b_next_ = b_four[v] - 0.1f * b_velocity_next_;
      b_result[v] = b_next_;
    }
    store4(b_velocity + first, b_velocity_result);
    store4(b + first, b_result);
  }
}
