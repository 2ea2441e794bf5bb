#include "tests/additions/mark_functions.hpp"

namespace pando::testing {

void mark_functions(StepProgram& program) {
  for (StepFunction& function : program.functions) function.name = "marked " + function.name;
}

}  // namespace pando::testing
