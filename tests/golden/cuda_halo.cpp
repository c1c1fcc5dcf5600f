  // halo_exchange x over sp, 288 B received; shares of 1, 3, 4
  if (hetsynth_record(context, 0, compute_stream) || hetsynth_wait(context, 0, communication_stream)) return 1;
  if (launch(context, communication_stream, kernel_pack_x, 1, 256, x, arena + 3328)) return 1;
  if (ncclGroupStart()) return 1;
  if (ncclSend(arena + 3328, 36, nccl_float32, 0, sp_ranks, context->communication_stream)) return 1;
  if (ncclRecv(arena + 3840, 36, nccl_float32, 0, sp_ranks, context->communication_stream)) return 1;
  if (ncclSend(arena + 3472, 36, nccl_float32, 2, sp_ranks, context->communication_stream)) return 1;
  if (ncclRecv(arena + 3984, 36, nccl_float32, 2, sp_ranks, context->communication_stream)) return 1;
  if (ncclGroupEnd()) return 1;
  if (launch(context, communication_stream, kernel_unpack_x_with_halo, 1, 256, arena + 3840, x, x_with_halo)) return 1;
  if (hetsynth_record(context, 1, communication_stream)) return 1;

// packs x: rows for others, rank by rank, a row for each of those who want it
extern "C" __global__ void __launch_bounds__(256) pack_x(const float* __restrict__ x, float* __restrict__ shares) {
  for (long long at = (long long)blockIdx.x * 256 + threadIdx.x; at < 72; at += (long long)gridDim.x * 256) {
    long long start = 0, first = 0, last = 0;  // of the piece: where it begins in the packed order, and its part of the dimension
    if (at < 36) start = 0, first = 0, last = 1;
    else if (at < 72) start = 36, first = 2, last = 3;
    const long long row = (at - start) / ((last - first) * 6), lane = at % 6;
    const long long column = first + (at - start) / 6 % (last - first);
    shares[at] = x[(row * 3 + column) * 6 + lane];
  }
}

// unpacks x_with_halo: x and, around it, rows of others, which lie one share after the other
extern "C" __global__ void __launch_bounds__(256) unpack_x_with_halo(const float* __restrict__ shares, const float* __restrict__ x, float* __restrict__ x_with_halo) {
  for (long long at = (long long)blockIdx.x * 256 + threadIdx.x; at < 180; at += (long long)gridDim.x * 256) {
    const long long row = at / 30, column = at / 6 % 5, lane = at % 6;
    long long start = 0, first = 0, last = 0;  // of the piece: where it begins in the packed order, and its part of the dimension
    if (column < 1) start = 0, first = 0, last = 1;
    else if (column < 4) start = 0, first = 1, last = 4;
    else if (column < 5) start = 36, first = 4, last = 5;
    const long long packed = start + (row * (last - first) + column - first) * 6 + lane;
    x_with_halo[at] = column >= 1 && column < 4 ? x[packed] : shares[packed];
  }
}
