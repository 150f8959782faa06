// The families of the catalogue, one a file. Each gets a specification whose batch is at least 1
// and whose knobs are complete and in range.
#pragma once

#include "networks/catalogue.hpp"

namespace um {

// "One weird trick" AlexNet (Krizhevsky 2014): one column, no local response normalisation. A
// larger insize is pooled to the same 6 x 6 before the fully connected layers: the last pool's
// window and stride grow with it, so parameters stay the same while activations grow.
graph build_alexnet(const network_spec& spec);

// VGG of 11, 13, 16 or 19 weight layers (Simonyan and Zisserman 2014, configurations A, B, D and
// E). The first fully connected layer reads the whole last feature map, so its parameters grow
// with insize.
graph build_vgg11(const network_spec& spec);
graph build_vgg13(const network_spec& spec);
graph build_vgg16(const network_spec& spec);
graph build_vgg19(const network_spec& spec);

// One convolution with a bias. Its output is the network's output; there is no loss. Training
// takes the output's gradient as an input and also gives the gradient of the data.
graph build_conv(const network_spec& spec);

}  // namespace um
