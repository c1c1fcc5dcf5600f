// Networks over images and plans that divide the images' rows among devices, so that windows read rows of neighbours.
#pragma once
#include <string>
#include <vector>

#include "dsl/spmd/spmd.h"

namespace hetsynth::test {

/// Every input of four dimensions, [batch, channels, height, width], lies cut by rows over one axis of bounds.size() -
/// 1 devices; every node divides the factor that its operands are cut by, exchanging rows where windows reach over the
/// parts; sums over all rows are all-reduced. Parameters lie whole. `bounds`: in units; heights that are no multiple of
/// bounds.back() units stay whole.
SpmdProgram divided_by_rows(const Program& reference, std::vector<int64_t> bounds);

/// A training step and how its rows are divided.
struct HaloCase {
  std::string name;
  Program reference;
  std::vector<int64_t> bounds;
};
/// Convolutions of windows 3 and 5, of stride 2 and of one channel, and pooling of maxima and means, with their
/// gradients, over two to four devices: uneven shares, empty ones among them, and some shorter than the halo. Tensors
/// of interest are outputs.
std::vector<HaloCase> halo_cases();

/// A 3 x 3 convolution of `channels` channels of 8 x 6 images, with its gradients and a step of plain descent.
Program convolution_of_rows(int64_t batch, int64_t channels);

}  // namespace hetsynth::test
