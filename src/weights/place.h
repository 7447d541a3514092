// Where something went wrong, for the end of a message.
#pragma once

#include <string>

#include "weights/load.h"

namespace fusedmoe {

/// " (file, tp rank 1/2, ep rank 0/4)": the file of `tensor` when the checkpoint has it, ranks when
/// there are several; empty when none of it is known.
std::string place_of(const Checkpoint& checkpoint, const ExpertLoadRequest& request,
                     const std::string& tensor = {});

}  // namespace fusedmoe
