// Networks over images and plans that divide the images among devices, so that windows read what neighbours
// have.
#pragma once
#include <string>
#include <vector>

#include "dsl/spmd/spmd.h"

namespace hetsynth::test {

/// A mesh axis of bounds.size() - 1 devices, and the dimension of images that it cuts. `bounds`: in units; extents that
/// are no multiple of bounds.back() units stay whole.
struct ImageCut {
  std::string axis;
  int dim;
  std::vector<int64_t> bounds;
};
/// Every input of four dimensions, [batch, channels, height, width], lies cut so; every node divides the factors that
/// its operands are cut by, exchanging what windows reach over the parts; sums over all parts are all-reduced.
/// Parameters lie whole.
SpmdProgram divided_images(const Program& reference, const std::vector<ImageCut>& cuts);
/// By rows over one axis, "sp".
SpmdProgram divided_by_rows(const Program& reference, std::vector<int64_t> bounds);

/// A training step, or a forward pass, and its plan.
struct HaloCase {
  std::string name;
  Program reference;
  SpmdProgram plan;
};
/// Convolutions of windows 3 and 5, of stride 2 and of one channel, and pooling of maxima and means, with their
/// gradients, over two to four devices: uneven shares, empty ones among them, and some shorter than the halo; by rows,
/// by rows and columns, and by batch and rows. Tensors of interest are outputs.
std::vector<HaloCase> halo_cases();

/// A 3 x 3 convolution of `channels` channels of 8 x 6 images, with its gradients and a step of plain descent.
Program convolution_of_rows(int64_t batch, int64_t channels);

/// One image of 16 x 16 through convolutions of windows 5 and 3, a pool that halves and a layer over the means: a step
/// of which little is to be divided but height and width.
Program network_of_one_image();

}  // namespace hetsynth::test
