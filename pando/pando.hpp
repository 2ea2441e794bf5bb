// The public C++ header: build a program with Ir, Graph and the typed builders, differentiate it,
// run it in a Session. Who makes ops by name instead calls `op_registry()` once before.
#pragma once

#include "pando/base/dtype.hpp"
#include "pando/base/error.hpp"
#include "pando/base/shape.hpp"
#include "pando/ir/graph.hpp"
#include "pando/ops/builders.hpp"
#include "pando/ops/library_ops.hpp"
#include "pando/ops/ops.hpp"
#include "pando/session/session.hpp"
#include "pando/transforms/autodiff.hpp"
