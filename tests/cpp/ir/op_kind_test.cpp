// Kinds as numbers, and what the records say about them.
#include <gtest/gtest.h>

#include <functional>
#include <set>
#include <string>

#include "pando/base/error.hpp"
#include "pando/ops/ops.hpp"

namespace pando::testing {
namespace {

using Names = std::set<std::string>;

Names kinds_where(const std::function<bool(const OpDef&)>& holds) {
  Names names;
  for (const OpDef* def : op_registry().all()) {
    if (holds(*def)) names.insert(def->name);
  }
  return names;
}

TEST(OpKinds, NamedOnesAreRegisteredUnderTheirNames) {
  for (std::size_t i = 0; i < kNamedKinds.size(); ++i) {
    EXPECT_EQ(op_registry().get(kNamedKinds[i]).kind, static_cast<OpKind>(i)) << kNamedKinds[i];
  }
  EXPECT_EQ(op_registry().get("MatMul").kind, OpKind::MatMul);
}

TEST(OpKinds, EachHasANumberOfItsOwn) {
  std::set<OpKind> numbers;
  for (const OpDef* def : op_registry().all()) numbers.insert(def->kind);
  EXPECT_EQ(numbers.size(), op_registry().all().size());
}

TEST(OpKinds, UnknownNamesAreRefused) {
  EXPECT_EQ(op_registry().find("Ad"), nullptr);
  try {
    op_registry().get("Ad");
    ADD_FAILURE() << "wanted an error";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "there is no op kind called 'Ad'");
  }
}

TEST(OpTraits, CallsAreTheOpsThatRunGraphs) {
  EXPECT_EQ(kinds_where([](const OpDef& d) { return d.num_called_graphs > 0; }),
            (Names{"Call", "If", "Loop", "While"}));
  EXPECT_EQ(kinds_where([](const OpDef& d) { return d.is_call; }), Names{"Call"});
  EXPECT_EQ(kinds_where([](const OpDef& d) { return d.differentiates_callees; }),
            (Names{"Call", "If", "While"}));
  EXPECT_EQ(kinds_where([](const OpDef& d) { return d.is_loop; }), (Names{"Loop", "While"}));
}

TEST(OpTraits, TransfersAreLoadsOrStores) {
  EXPECT_EQ(kinds_where([](const OpDef& d) { return d.is_load; }),
            (Names{"HostLoad", "RemoteLoad", "RemoteLoadInplace"}));
  EXPECT_EQ(kinds_where([](const OpDef& d) { return d.is_store; }),
            (Names{"HostStore", "RemoteStore"}));
  // What writes its input needs its storage.
  EXPECT_EQ(kinds_where([](const OpDef& d) { return d.ignores_value; }),
            (Names{"HostLoad", "RemoteLoad"}));
  for (const OpDef* def : op_registry().all()) {
    if (def->is_load || def->is_store) {
      EXPECT_TRUE(def->has_side_effects) << def->name;
    }
  }
}

TEST(OpTraits, PlacesAndReplicas) {
  EXPECT_EQ(kinds_where([](const OpDef& d) { return d.moves_devices; }), Names{"DeviceCopy"});
  EXPECT_EQ(kinds_where([](const OpDef& d) { return d.has_tensor_devices; }),
            (Names{"AllReduce", "AllReduceGrad"}));
  EXPECT_EQ(kinds_where([](const OpDef& d) { return d.is_collective; }),
            (Names{"ReplicatedAllGather", "ReplicatedAllReduce", "ReplicatedAllReduceInplace",
                   "ReplicatedReduceScatter"}));
}

TEST(OpTraits, ElidableOpsAndScales) {
  EXPECT_EQ(kinds_where([](const OpDef& d) { return d.is_elidable; }), Names{"Identity"});
  EXPECT_EQ(kinds_where([](const OpDef& d) { return d.log2_scale_input >= 0; }),
            (Names{"CastThenPow2Scale", "Conv", "ConvTranspose", "MatMul", "Pow2ScaleThenCast"}));
}

}  // namespace
}  // namespace pando::testing
