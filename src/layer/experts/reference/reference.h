// The reference kernel: plain loops in double precision that define the result.
#pragma once

#include <memory>

#include "layer/experts/experts.h"

namespace fusedmoe {

/// Rounds where every other kernel rounds (activation, slot, output) and nowhere else.
std::unique_ptr<ExpertsKernel> make_reference(const ExpertsProblem& problem);

/// act(g, u) in double precision.
double activate_reference(const ActivationConfig& config, double g, double u);

}  // namespace fusedmoe
