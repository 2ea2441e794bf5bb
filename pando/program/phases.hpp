// Phases of the main program: the parts that reports and memory errors name.
#pragma once

#include "pando/program/program.hpp"

namespace pando {

// The main program is the main graph and the branches of its conditionals outside of any name
// scope. SourceInfo::phase of what it does is the outermost name scope of the op, or else the graph
// that it calls, or else the branch that it is in; of the ops of a graph that was put in the place
// of a call, that of the call. What a phase calls belongs to it. Program::sources begins with a
// source of each phase, which no instruction comes from, in the order of the user's program: the
// compiler moves what they do.

/// Whether the branches of an instruction of this kind and source belong to the main program if the
/// instruction does.
inline bool has_phases_inside(const Program& program, Instruction::Kind kind, std::int32_t source) {
  return kind == Instruction::Kind::If && source >= 0 &&
         program.sources[static_cast<std::size_t>(source)].phase.empty();
}

}  // namespace pando
