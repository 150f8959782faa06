#include "core/placement.hpp"

namespace um {

placement::placement(const problem& p, const memory_plan& plan, packer how)
    : table(lifetimes_of(p, plan)),
      at(lay_out(p.network, table, plan, how)),
      managed(p.network, plan, table, at) {}

placement::placement(const problem& p, const memory_plan& plan, const placement& known)
    : table(lifetimes_of(p, plan)),
      at(lay_out_as(known.at, p.network, table, plan)),
      managed(p.network, plan, table, at) {}

}  // namespace um
