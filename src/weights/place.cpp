#include "weights/place.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace fusedmoe {

std::string place_of(const Checkpoint& checkpoint, const ExpertLoadRequest& request,
                     const std::string& tensor) {
  std::vector<std::string> parts;
  const TensorInfo* info = checkpoint.find(tensor);
  if (info != nullptr) parts.push_back(checkpoint.files()[static_cast<std::size_t>(info->file)]);
  const ParallelLayout& p = request.parallel;
  if (p.tp_size > 1) parts.push_back(fmt::format("tp rank {}/{}", p.tp_rank, p.tp_size));
  if (p.ep_size > 1) parts.push_back(fmt::format("ep rank {}/{}", p.ep_rank, p.ep_size));
  return parts.empty() ? std::string() : fmt::format(" ({})", fmt::join(parts, ", "));
}

}  // namespace fusedmoe
