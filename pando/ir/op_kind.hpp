// Kinds of ops, as numbers.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace pando {

// Kinds that code outside of pando/ops asks for by name. What holds for several kinds is a trait of
// their records instead (OpDef).
// clang-format off: one entry a line; version 14 does not settle on a layout
#define PANDO_NAMED_KINDS(X)    \
  X(Add)                        \
  X(ConcatInplace)              \
  X(Div)                        \
  X(DropoutCore)                \
  X(GatherGrad)                 \
  X(GroupedMatMul)              \
  X(GroupedOuter)               \
  X(HostCall)                   \
  X(If)                         \
  X(Init)                       \
  X(IoTileCopy)                 \
  X(Loop)                       \
  X(MatMul)                     \
  X(Mul)                        \
  X(NlllWithSoftmaxGradDirect)  \
  X(PrintTensor)                \
  X(ReplicatedAllGather)        \
  X(ReplicatedAllReduce)        \
  X(ReplicatedAllReduceInplace) \
  X(ReplicatedReduceScatter)    \
  X(Reshape)                    \
  X(Softmax)                    \
  X(SoftmaxGrad)                \
  X(Sum)                        \
  X(Where)                      \
  X(While)
// clang-format on

/// The registry numbers the kinds that have no name here after those that have one. Numbers are
/// those of one process: what is stored has the name of the record.
enum class OpKind : std::uint16_t {
#define PANDO_KIND(name) name,
  PANDO_NAMED_KINDS(PANDO_KIND)
#undef PANDO_KIND
};

inline constexpr auto kNamedKinds = std::to_array<std::string_view>({
#define PANDO_KIND_NAME(name) #name,
    PANDO_NAMED_KINDS(PANDO_KIND_NAME)
#undef PANDO_KIND_NAME
});

}  // namespace pando
