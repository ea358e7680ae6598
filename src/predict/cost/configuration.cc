#include "predict/cost/configuration.h"

#include <numeric>

#include "base/check.h"

namespace tombolo::cost {

Grid take_from_domain(int64_t degree, int64_t& left) {
  CHECK(degree >= 1, "a degree of {} in what is left of a domain, {}", degree, left);
  const int64_t inside = std::gcd(degree, left);
  left /= inside;
  return {inside, degree / inside};
}

Result<Order> parse_order(std::string_view text) {
  constexpr const char* kHint = "\"tp-cp-ep-dp-pp\", innermost first";
  constexpr std::pair<std::string_view, Dimension> kNames[] = {{"tp", Dimension::kTensor},
                                                               {"cp", Dimension::kContext},
                                                               {"dp", Dimension::kData},
                                                               {"pp", Dimension::kPipeline}};
  Order order{};
  size_t placed = 0;
  bool seen[4] = {}, experts = false;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find('-', begin), text.size());
    const std::string_view name = text.substr(begin, end - begin);
    begin = end + 1;
    if (name == "ep" && !experts) {
      experts = true;
      continue;
    }
    bool known = false;
    for (const auto& [spelling, dimension] : kNames) {
      bool& already = seen[static_cast<size_t>(dimension)];
      if (name != spelling || already) continue;
      known = already = true;
      order[placed++] = dimension;
    }
    if (!known) return unusable(fmt::format("\"{}\" is unknown or twice", name), kHint);
  }
  for (const auto& [spelling, dimension] : kNames) {
    if (seen[static_cast<size_t>(dimension)]) continue;
    if (dimension != Dimension::kContext) {
      return unusable(fmt::format("\"{}\" is missing", spelling), kHint);
    }
    // Left out: context parallelism outermost, where it costs nothing unless it is used.
    order[placed++] = dimension;
  }
  return order;
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

Layout lay_out(const Configuration& c, int64_t domain) {
  Layout layout;
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
