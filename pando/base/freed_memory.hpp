// What was freed and the C library keeps.
#pragma once

namespace pando {

/// Gives memory that was freed back to the system, where the C library can be asked to. By itself
/// it keeps what lies below something that is used: after a large compilation, tens of MiB.
void return_freed_memory();

}  // namespace pando
