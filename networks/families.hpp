// The families of the catalogue, one per file. The batch of a specification is at least 1, and its knobs are
// complete and in range.
#pragma once

#include <array>

#include "networks/spec.hpp"

namespace um {

// "One weird trick" AlexNet (Krizhevsky 2014): one column, no local response normalisation. A
// larger insize is pooled to the same 6 x 6 before the fully connected layers: the last pool's
// window and stride grow with it, so parameters stay the same while activations grow.
graph build_alexnet(const network_spec& spec);

// VGG of 11, 13, 16 or 19 weight layers (Simonyan and Zisserman 2014, configurations A, B, D and
// E). The first fully connected layer reads the whole last feature map, so its parameters grow
// with insize.
using vgg_stages = std::array<int, 5>;  // number of convolutions of each stage; every stage ends in a pool
graph build_vgg(const network_spec& spec, const vgg_stages& depth);
// VGG for CIFAR-10: a batch normalisation after every convolution (which then has no bias), and fully
// connected layers of 512 and 10.
graph build_vgg_cifar(const network_spec& spec, const vgg_stages& depth);

enum class resnet_stem : std::uint8_t {
  imagenet,  // 7 x 7 with stride 2, then a 3 x 3 pool with stride 2
  cifar,     // 3 x 3 with stride 1, no pool
};

struct resnet_architecture {
  resnet_stem first = resnet_stem::imagenet;
  std::array<int, 4> blocks{};  // number of blocks of each stage; 0: there is no such stage
  bool bottleneck = false;
  std::int64_t width = 64;  // channels of the first stage; each further stage doubles them
  std::int64_t classes = 1000;
};

// ResNets (He, Zhang, Ren and Sun 2015) with projections where a shortcut changes its shape. A
// bottleneck that halves the image does so in its 3 x 3 convolution, as torchvision's do; layers are
// named as torchvision names them. The two shortcuts that the paper's section 4.2 pads with zeros are
// projected here, too.
graph build_resnet(const network_spec& spec, const resnet_architecture& a);

// GoogLeNet (Szegedy et al. 2015) as torchvision has it: every convolution normalised and without a bias
// (epsilon 0.001), 3 x 3 filters in the place of 5 x 5, no auxiliary heads, no dropout.
graph build_googlenet(const network_spec& spec);

// DenseNet-121 (Huang, Liu, van der Maaten and Weinberger 2017): every layer of a block reads the channels of
// all layers before it, joined anew for each; at level lean these are joined again rather than kept. Layers
// are named as torchvision names them.
graph build_densenet121(const network_spec& spec);

// MobileNetV2 (Sandler, Howard, Zhu, Zhmoginov and Chen 2018) of width 1, without dropout.
graph build_mobilenet_v2(const network_spec& spec);

// One convolution with a bias. Its output is the network's output; there is no loss. Training
// takes the output's gradient as an input and also gives the gradient of the data.
graph build_conv(const network_spec& spec);

}  // namespace um
