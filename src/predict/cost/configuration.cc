#include "predict/cost/configuration.h"

#include <numeric>

#include "base/check.h"

namespace tombolo::cost {

using layout::Dimension;

DegreeSplit take_from_domain(int64_t degree, int64_t& left) {
  CHECK(degree >= 1, "a degree of {} in what is left of a domain, {}", degree, left);
  const int64_t inside = std::gcd(degree, left);
  left /= inside;
  return {inside, degree / inside};
}

int64_t usable_domain(int64_t domain, int64_t devices) {
  CHECK(domain >= 1, "{} devices in domains of {}", devices, domain);
  const bool power_of_two = (domain & (domain - 1)) == 0;
  if (power_of_two || devices % domain == 0) return domain;
  if (devices <= domain) return devices;
  int64_t usable = domain;
  while (devices % usable != 0) --usable;
  return usable;
}

GroupPlacement lay_out(const Configuration& c, int64_t domain) {
  GroupPlacement layout;
  int64_t left = domain;
  for (const Dimension dimension : c.order) {
    switch (dimension) {
      case Dimension::kTensor:
        layout.tensor = take_from_domain(c.tensor, left);
        break;
      case Dimension::kContext:
        layout.context = take_from_domain(c.context, left);
        break;
      case Dimension::kData:
        layout.data = take_from_domain(c.data, left);
        break;
      case Dimension::kPipeline:
        layout.pipeline = take_from_domain(c.pipeline, left);
        break;
      case Dimension::kExpert:
        break;  // of the ranks of context and data, below
    }
  }
  CHECK(layout.tensor.degree() == c.tensor && layout.context.degree() == c.context &&
            layout.data.degree() == c.data && layout.pipeline.degree() == c.pipeline,
        "an order of dimensions leaves one out: {} x {} x {} x {} of {} x {} x {} x {} devices",
        layout.tensor.degree(), layout.context.degree(), layout.data.degree(),
        layout.pipeline.degree(), c.tensor, c.context, c.data, c.pipeline);
  layout.gradients = {layout.context.domain * layout.data.domain,
                      layout.context.network * layout.data.network};
  int64_t replicas_inside = layout.gradients.domain;
  layout.expert = take_from_domain(c.expert, replicas_inside);
  return layout;
}

}  // namespace tombolo::cost
