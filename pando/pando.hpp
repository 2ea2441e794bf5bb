// The public C++ header: build a program with Ir, Graph and OpBuilder, differentiate it, run it in
// a Session. `op_registry()` must be called once before graphs are built.
#pragma once

#include "pando/base/dtype.hpp"
#include "pando/base/error.hpp"
#include "pando/base/shape.hpp"
#include "pando/ir/graph.hpp"
#include "pando/ops/ops.hpp"
#include "pando/session/session.hpp"
#include "pando/transforms/autodiff.hpp"
