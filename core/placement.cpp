#include "core/placement.hpp"

namespace um {

placement::placement(const problem& p, const memory_plan& plan, packer how)
    : table(lifetimes_of(p, plan)),
      addresses(make_layout(p.network, table, plan, how)),
      managed(p.network, plan, table, addresses) {}

placement::placement(const problem& p, const memory_plan& plan, const placement& known)
    : table(lifetimes_of(p, plan)),
      addresses(make_layout_like(known.addresses, p.network, table, plan)),
      managed(p.network, plan, table, addresses) {}

}  // namespace um
