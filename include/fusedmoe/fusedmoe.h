// Everything at once.
#pragma once

#include "fusedmoe/activation.h"
#include "fusedmoe/checkpoint.h"
#include "fusedmoe/dtype.h"
#include "fusedmoe/error.h"
#include "fusedmoe/executor.h"
#include "fusedmoe/kernels.h"
#include "fusedmoe/layer.h"
#include "fusedmoe/model.h"
#include "fusedmoe/parallel.h"
#include "fusedmoe/quant.h"
#include "fusedmoe/routing.h"
#include "fusedmoe/tensor.h"
#include "fusedmoe/workspace.h"
