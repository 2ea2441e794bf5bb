// Ops that rearrange, join or create elements.
#include <numeric>

#include "tests/oracle/rules.hpp"

namespace pando::oracle {
namespace {

/// For every output index, the input index that `source` gives.
template <class Source>
std::vector<std::int64_t> sources(const Op& op, Source source) {
  std::vector<std::int64_t> result;
  const Shape& from = op.input(0)->shape();
  for_each_element(op.output(0)->shape(), [&](std::int64_t, const Shape& index) {
    result.push_back(flat_position(from, source(index)));
  });
  return result;
}

std::vector<std::int64_t> unchanged(const Op& op) {
  std::vector<std::int64_t> result(static_cast<std::size_t>(op.input(0)->info.num_elements()));
  std::iota(result.begin(), result.end(), std::int64_t{0});
  return result;
}

std::vector<std::int64_t> transposed(const Op& op) {
  const Ints& permutation = op.attributes.ints("permutation");
  return sources(op, [&](const Shape& index) {
    Shape from(index.size());
    for (std::size_t d = 0; d < index.size(); ++d) {
      from[static_cast<std::size_t>(permutation[d])] = index[d];
    }
    return from;
  });
}

std::vector<std::int64_t> sliced(const Op& op) {
  const Ints& starts = op.attributes.ints("starts");
  const Ints& steps = op.attributes.ints("steps");
  return sources(op, [&](Shape index) {
    for (std::size_t d = 0; d < index.size(); ++d) index[d] = starts[d] + steps[d] * index[d];
    return index;
  });
}

std::vector<std::int64_t> subsampled(const Op& op) {
  const Ints& strides = op.attributes.ints("strides");
  return sources(op, [&](Shape index) {
    for (std::size_t d = 0; d < index.size(); ++d) index[d] *= strides[d];
    return index;
  });
}

std::vector<std::int64_t> broadcast(const Op& op) {
  std::vector<std::int64_t> result;
  for_each_element(op.output(0)->shape(), [&](std::int64_t, const Shape& index) {
    result.push_back(broadcast_position(op.input(0)->shape(), index));
  });
  return result;
}

void concat(const Op& op, const Inputs& in, std::vector<Array>& out) {
  const auto axis = static_cast<std::size_t>(op.attributes.integer("axis"));
  std::int64_t start = 0;
  for (const Array* part : in) {
    for_each_element(part->shape, [&](std::int64_t i, Shape index) {
      index[axis] += start;
      out[0][flat_position(out[0].shape, index)] = (*part)[i];
    });
    start += part->shape[axis];
  }
}

void split(const Op& op, const Inputs& in, std::vector<Array>& out) {
  const auto axis = static_cast<std::size_t>(op.attributes.integer("axis"));
  std::int64_t start = 0;
  for (Array& part : out) {
    for_each_element(part.shape, [&](std::int64_t i, Shape index) {
      index[axis] += start;
      part[i] = (*in[0])[flat_position(in[0]->shape, index)];
    });
    start += part.shape[axis];
  }
}

void concat_grad(const Op& op, const Inputs& in, std::vector<Array>& out) {
  const auto axis = static_cast<std::size_t>(op.attributes.integer("axis"));
  for_each_element(out[0].shape, [&](std::int64_t i, Shape index) {
    index[axis] += op.attributes.integer("start");
    out[0][i] = (*in[0])[flat_position(in[0]->shape, index)];
  });
}

/// Input 0 at starts + steps * index in zeros.
void spread(const Inputs& in, Array& out, const Ints& starts, const Ints& steps) {
  for_each_element(in[0]->shape, [&](std::int64_t i, Shape index) {
    for (std::size_t d = 0; d < index.size(); ++d) index[d] = starts[d] + steps[d] * index[d];
    out[flat_position(out.shape, index)] = (*in[0])[i];
  });
}

void pad_into(const Op& op, const Inputs& in, std::vector<Array>& out) {
  spread(in, out[0], op.attributes.ints("starts"), op.attributes.ints("steps"));
}

void subsample_grad(const Op& op, const Inputs& in, std::vector<Array>& out) {
  const Ints& strides = op.attributes.ints("strides");
  spread(in, out[0], Ints(strides.size(), 0), strides);
}

void fill(const Op& op, const Inputs&, std::vector<Array>& out) {
  for (Number& number : out[0].data) number = op.attributes.number("value");
}

}  // namespace

void add_shape_rules(RuleTable& table) {
  for (const char* name : {"Identity", "IdentityGrad", "Detach", "DetachInplace", "Reshape",
                           "ReshapeInplace", "ReshapeGrad", "DeviceCopy", "IoTileCopy"}) {
    table.rearrangements[name] = unchanged;
  }
  for (const char* name : {"Transpose", "TransposeInplace", "TransposeGrad"}) {
    table.rearrangements[name] = transposed;
  }
  for (const char* name : {"Slice", "SliceInplace"}) table.rearrangements[name] = sliced;
  table.rearrangements["Subsample"] = subsampled;
  table.rearrangements["BroadcastTo"] = broadcast;
  table.add("Concat", concat);
  table.add("ConcatGrad", concat_grad);
  table.add("SplitGrad", concat);
  table.add("Split", split);
  table.add("PadInto", pad_into);
  table.add("SliceGrad", pad_into);
  table.add("SubsampleGrad", subsample_grad);
  table.add("Fill", fill);
  // Unspecified contents are zeros here.
  table.add("Init", [](const Op&, const Inputs&, std::vector<Array>&) {});
}

}  // namespace pando::oracle
