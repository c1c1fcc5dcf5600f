// The one header of a model file. Everything a model needs: tensors, inputs, parameters, operators, options, minimize.
#pragma once
#include <string>
#include <vector>

#include "hetsynth/data.h"
#include "hetsynth/model.h"
#include "hetsynth/operators.h"  // generated: every operator of the list
#include "hetsynth/tensor.h"
