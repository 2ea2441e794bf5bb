#include "pando/runtime/collective_elements.hpp"

#include <algorithm>
#include <cstring>

#include "pando/runtime/reduce.hpp"

namespace pando {
namespace {

std::size_t bytes_of(const Collective& collective, std::int64_t elements) {
  return static_cast<std::size_t>(elements) * dtype_bytes(collective.dtype);
}

/// `output`: where element `to` of the collective's output lies.
void copy(const Collective& collective, const std::byte* from, std::int64_t count,
          std::byte* output) {
  if (count > 0) std::memcpy(output, from, bytes_of(collective, count));
}

/// Zeros from element `from` of the output on.
void pad(const Collective& collective, std::int64_t from, std::byte* output) {
  const std::int64_t missing = collective.output_elements - from;
  if (missing <= 0) return;
  std::memset(output + bytes_of(collective, from), 0, bytes_of(collective, missing));
}

struct Range {
  std::int64_t begin, end;
};

/// The elements of the input that rank `rank` gets of a ReduceScatter.
Range part_of(const Collective& collective, int rank) {
  const std::int64_t count = collective.input_elements;
  const std::int64_t begin = std::min(count, rank * collective.output_elements);
  return {begin, std::min(count, begin + collective.output_elements)};
}

}  // namespace

void CollectiveElements::compute(const Collective& collective, int rank,
                                 const std::vector<const std::byte*>& inputs, std::byte* output) {
  const std::int64_t count = collective.input_elements;
  switch (collective.kind) {
    case Collective::Kind::Barrier:
      break;
    case Collective::Kind::AllReduce:
      own_output_.assign(1, output);
      reduce(collective, inputs, 0, count, own_output_, 0);
      break;
    case Collective::Kind::ReduceScatter: {
      const auto [begin, end] = part_of(collective, rank);
      own_output_.assign(1, output);
      reduce(collective, inputs, begin, end, own_output_, 0);
      pad(collective, end - begin, output);
      break;
    }
    case Collective::Kind::AllGather:
      for (std::size_t i = 0; i < inputs.size(); ++i) {
        const std::int64_t at =
            std::min(static_cast<std::int64_t>(i) * count, collective.output_elements);
        const std::int64_t end = std::min(at + count, collective.output_elements);
        copy(collective, inputs[i], end - at, output + bytes_of(collective, at));
      }
      break;
  }
}

void CollectiveElements::reduce(const Collective& collective,
                                const std::vector<const std::byte*>& inputs, std::int64_t begin,
                                std::int64_t end, const std::vector<std::byte*>& outputs,
                                std::int64_t to) {
  alignas(64) std::byte block[kReduceBlock * sizeof(float)];
  block_inputs_.resize(inputs.size());
  for (std::int64_t i = begin; i < end; i += kReduceBlock) {
    const std::int64_t count = std::min(kReduceBlock, end - i);
    for (std::size_t m = 0; m < inputs.size(); ++m) {
      block_inputs_[m] = inputs[m] + bytes_of(collective, i);
    }
    reduce_elements(collective.reduction, collective.dtype, block_inputs_, count, block);
    const std::size_t target = bytes_of(collective, i - begin + to);
    for (std::byte* output : outputs) copy(collective, block, count, output + target);
  }
}

void cut_own_part(const Collective& collective, int rank, const std::byte* input,
                  std::byte* output) {
  const auto [begin, end] = part_of(collective, rank);
  copy(collective, input + bytes_of(collective, begin), end - begin, output);
  pad(collective, end - begin, output);
}

}  // namespace pando
