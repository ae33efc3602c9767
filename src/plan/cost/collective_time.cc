#include "plan/cost/collective_time.h"

namespace trireme::plan {

double reduce_scatter_seconds(const Link& link, std::uint32_t ranks, double bytes, CollectiveAlgorithm algorithm) {
  if (ranks <= 1 || bytes <= 0) return 0;
  const double n = ranks;
  const double rounds = algorithm == CollectiveAlgorithm::kDirect ? 1 : n - 1;
  return (n - 1) / n * bytes / link.bytes_per_second + rounds * link.latency;
}

double all_reduce_seconds(const Link& link, std::uint32_t ranks, double bytes, CollectiveAlgorithm algorithm) {
  return 2 * reduce_scatter_seconds(link, ranks, bytes, algorithm);
}

double reduce_scatter_seconds(const Links& links, const GroupSpan& span, double bytes) {
  if (span.within_host()) return reduce_scatter_seconds(links.host, span.ranks, bytes);
  if (span.most_local == 1) return reduce_scatter_seconds(links.network, span.ranks, bytes);
  return reduce_scatter_seconds(links.host, span.most_local, bytes) +
         reduce_scatter_seconds(links.network, span.hosts, bytes / span.most_local);
}

double all_reduce_seconds(const Links& links, const GroupSpan& span, double bytes) {
  return 2 * reduce_scatter_seconds(links, span, bytes);
}

}  // namespace trireme::plan
