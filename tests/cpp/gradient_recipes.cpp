#include "tests/cpp/gradient_recipes.hpp"

#include <algorithm>

#include "pando/ops/host_call.hpp"

namespace pando::gradients {
namespace {

RecipeInput integers(Shape shape, std::vector<double> values) {
  return {std::move(shape), 0.0, 0.0, DType::Int32, std::move(values)};
}

void add_elementwise(std::vector<Recipe>& all) {
  for (const char* kind :
       {"Abs", "Neg", "Sign", "Ceil", "Floor", "Exp", "Sin", "Cos", "Tanh", "Relu", "Gelu",
        "GeluErf", "Swish", "Sigmoid", "Identity", "Expm1", "Atan", "Erf", "Erfc"}) {
    all.push_back({kind, {{{2, 3}}}});
  }
  for (const char* kind : {"Log", "Sqrt", "Log1p"}) all.push_back({kind, {{{2, 3}, 0.5, 3.0}}});
  all.push_back({"Clip", {{{3, 4}}}, {{"min", -1.0}, {"max", 0.5}}});
  all.push_back({"Cast", {{{4}}}, {{"dtype", DType::Float64}}});
  const std::vector<std::pair<Shape, Shape>> shapes = {
      {{2, 3}, {2, 3}}, {{2, 3}, {3}}, {{2, 1}, {4, 1, 3}}, {{}, {2}}};
  for (const auto& [a, b] : shapes) {
    for (const char* kind : {"Add", "Sub", "Mul"}) all.push_back({kind, {{a}, {b}}});
    for (const char* kind : {"Div", "Fmod", "Pow"}) {
      all.push_back({kind, {{a, 0.5, 2.0}, {b, 0.5, 2.0}}});
    }
    all.push_back({"Max", {{a}, {b}}, {}, {0, 1}});
  }
  all.push_back({"Sum", {{{2}}, {{2}}, {{2}}}, {}, {0, 1, 2}});
  all.push_back(
      {"AllReduce",
       {{{2, 3}}, {{2, 3}}, {{2, 3}}},
       {{"op", std::string("add")}, {"devices", Ints{0, 1, 2}}, {"form", std::string("plain")}},
       {0, 1, 2},
       {0, 2}});
  all.push_back({"Where", {{{2, 1}, 0.0, 0.0, DType::Bool, {1.0, 0.0}}, {{3}}, {{2, 3}}}});
}

void add_shape_ops(std::vector<Recipe>& all) {
  all.push_back({"Reshape", {{{2, 3}}}, {{"shape", Ints{6}}}});
  all.push_back({"Transpose", {{{2, 3, 4}}}, {{"permutation", Ints{2, 0, 1}}}});
  all.push_back({"Slice",
                 {{{5, 7}}},
                 {{"starts", Ints{1, 6}}, {"steps", Ints{1, -2}}, {"counts", Ints{3, 3}}}});
  all.push_back({"Subsample", {{{5, 4}}}, {{"strides", Ints{2, 3}}}});
  all.push_back({"BroadcastTo", {{{3, 1}}}, {{"shape", Ints{2, 3, 4}}}});
  for (const char* kind : {"Concat", "ConcatInplace"}) {
    all.push_back({kind, {{{2, 1}}, {{2, 3}}}, {{"axis", number(1)}}, {0, 1}});
  }
  all.push_back({"Split", {{{2, 5}}}, {{"axis", number(1)}, {"sizes", Ints{2, 3}}}, {}, {0, 1}});
  all.push_back({"HostCall",
                 {{{2, 3}}},
                 host_call_attributes("cube", {{DType::Float32, {2, 3}, {}}}, "cube_gradient")});
  all.push_back({"PrintTensor",
                 {{{2}}},
                 {{"title", std::string("t")},
                  {"print_self", false},
                  {"print_gradient", false},
                  {"summarise_threshold", number(1000)},
                  {"edge_items", number(3)},
                  {"max_line_width", number(75)},
                  {"digits", number(8)},
                  {"float_format", std::string("auto")},
                  {"separator", std::string(" ")},
                  {"open_bracket", std::string("[")},
                  {"close_bracket", std::string("]")}}});
}

void add_reductions(std::vector<Recipe>& all) {
  for (const Ints& axes : {Ints{1}, Ints{0, 2}, Ints{0, 1, 2}}) {
    const Attributes attributes = {{"axes", axes}, {"keepdims", axes.size() == 2}};
    for (const char* kind :
         {"ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL1", "ReduceL2",
          "ReduceSumSquare", "ReduceLogSumExp", "ReduceMedian"}) {
      all.push_back({kind, {{{2, 3, 2}}}, attributes});
    }
    all.push_back({"ReduceLogSum", {{{2, 3, 2}, 0.5, 2.0}}, attributes});
  }
  for (bool reverse : {false, true}) {
    all.push_back({"CumSum", {{{2, 3}}}, {{"axis", number(1)}, {"reverse", reverse}}});
  }
  all.push_back({"TopK",
                 {{{3, 4}}},
                 {{"axis", number(1)}, {"k", number(2)}, {"largest", true}, {"sorted", true}}});
}

void add_products(std::vector<Recipe>& all) {
  const std::vector<std::pair<Shape, Shape>> shapes = {
      {{2, 3}, {3, 4}}, {{3}, {3}},          {{3}, {3, 4}},          {{2, 3}, {3}},
      {{5, 2, 3}, {3}}, {{2, 3}, {5, 3, 2}}, {{5, 2, 3}, {5, 3, 2}}, {{2, 1, 2, 3}, {4, 3, 2}}};
  for (const auto& [a, b] : shapes) all.push_back({"MatMul", {{a}, {b}}});
  all.push_back({"Conv",
                 {{{2, 4, 5, 6}}, {{6, 2, 3, 2}}},
                 {{"strides", Ints{2, 1}},
                  {"pads", Ints{1, 0, 2, 1}},
                  {"dilations", Ints{1, 2}},
                  {"groups", number(2)}}});
  all.push_back({"Conv", {{{1, 2, 7}}, {{3, 2, 3}}}, {{"pad_type", std::string("same_upper")}}});
  all.push_back({"Conv", {{{1, 1, 3, 4, 3}}, {{2, 1, 2, 2, 2}}}});
  all.push_back({"Conv",
                 {{{2, 5, 6, 4}}, {{6, 2, 3, 2}}},
                 {{"strides", Ints{2, 1}},
                  {"pads", Ints{1, 0, 2, 1}},
                  {"groups", number(2)},
                  {"channel_last", true}}});
  all.push_back({"Conv", {{{2, 3, 4, 5}}, {{3, 1, 2, 2}}}, {{"groups", number(3)}}});
  // As transposed convolutions: with a rest behind the last window, and with one of a whole stride.
  all.push_back({"ConvDataGrad",
                 {{{4, 3, 3, 2}}, {{2, 4, 3, 4}}},
                 {{"strides", Ints{2, 3}},
                  {"pads", Ints{1, 0, 1, 0}},
                  {"dilations", Ints{1, 2}},
                  {"groups", number(2)},
                  {"input_shape", Ints{2, 6, 6, 14}}}});
  all.push_back({"ConvDataGrad",
                 {{{2, 1, 2}}, {{1, 4, 2}}},
                 {{"strides", Ints{1}},
                  {"pads", Ints{0, 0}},
                  {"dilations", Ints{3}},
                  {"groups", number(1)},
                  {"channel_last", true},
                  {"input_shape", Ints{1, 9, 1}}}});
}

void add_pools(std::vector<Recipe>& all) {
  const Attributes pool = {
      {"kernel_size", Ints{2, 3}}, {"strides", Ints{1, 2}}, {"pads", Ints{1, 1, 0, 1}}};
  for (const char* kind : {"MaxPool", "AveragePool"}) {
    all.push_back({kind, {{{2, 2, 4, 5}}}, pool});
    Attributes last = pool;
    last.set("channel_last", true);
    all.push_back({kind, {{{2, 4, 5, 3}}}, last});
  }
  Attributes first = pool, counting = pool;
  first.set("ties", std::string("first"));
  counting.set("count_include_pad", true);
  counting.set("ceil_mode", true);
  all.push_back({"MaxPool", {{{2, 2, 4, 5}}}, first});
  all.push_back({"AveragePool", {{{2, 2, 4, 6}}}, counting});
  for (const char* kind : {"AdaptiveMaxPool", "AdaptiveAveragePool"}) {
    all.push_back({kind, {{{2, 2, 5, 4}}}, {{"output_size", Ints{3, 4}}}});
    all.push_back({kind, {{{2, 6, 4, 2}}}, {{"output_size", Ints{2, 4}}, {"channel_last", true}}});
    all.push_back({kind, {{{1, 5, 4, 3}}}, {{"output_size", Ints{2, 3}}, {"channel_last", true}}});
  }
}

void add_norms(std::vector<Recipe>& all) {
  for (bool strided : {false, true}) {
    all.push_back(
        {"GroupNormalization",
         {{{3, 4, 2}}, {{4}}, {{4}}},
         {{"num_groups", number(2)}, {"eps", 1e-3}, {"strided_channel_grouping", strided}}});
  }
  for (bool last : {false, true}) {
    const Shape data = last ? Shape{3, 2, 2, 4} : Shape{3, 4, 2, 2};
    all.push_back({"BatchNormalizationTraining",
                   {{data}, {{4}}, {{4}}},
                   {{"epsilon", 1e-3}, {"channel_last", last}}});
  }
  all.push_back({"BatchNormalizationTraining", {{{5, 3}}, {{3}}, {{3}}}, {{"epsilon", 1e-3}}});
  for (const std::vector<int>& outputs : {std::vector{1}, std::vector{2}, std::vector{0, 1, 2}}) {
    all.push_back({"BatchNormalizationTraining",
                   {{{2, 3, 4}}, {{3}}, {{3}}},
                   {{"epsilon", 1e-3}},
                   outputs.size() == 1 ? std::vector{0} : std::vector<int>{},
                   outputs});
  }
}

void add_networks(std::vector<Recipe>& all) {
  for (std::int64_t axis : {0, 1, 2}) {
    all.push_back({"Softmax", {{{2, 3, 4}}}, {{"axis", axis}}});
  }
  for (const Ints& band : {Ints{5, 0}, Ints{1, 1}, Ints{2, 4}}) {
    all.push_back(
        {"Softmax", {{{2, 3, 4}}}, {{"axis", number(2)}, {"scale", 0.7}, {"band", band}}});
  }
  for (const char* reduction : {"mean", "sum", "none"}) {
    all.push_back({"Nll",
                   {{{4, 3}, 0.1, 0.9}, integers({4}, {0, 2, 1, 2})},
                   {{"reduction", std::string(reduction)}, {"ignore_index", number(1)}}});
  }
  all.push_back({"Nll",
                 {{{2, 3}, -3.0, -0.1}, integers({2}, {0, 2})},
                 {{"reduction", std::string("mean")}, {"log_prob", true}}});
  // A repeated label, an empty target, and one that no alignment fits.
  for (const bool zero_infinity : {false, true}) {
    const std::int64_t batch = zero_infinity ? 3 : 2;
    all.push_back(
        {"CtcLoss",
         {{{5, batch, 4}, -3.0, -0.5},
          integers({batch, 3}, zero_infinity ? std::vector<double>{2, 2, 1, 3, 0, 0, 1, 1, 1}
                                             : std::vector<double>{2, 2, 1, 3, 0, 0}),
          integers({batch},
                   zero_infinity ? std::vector<double>{5, 4, 3} : std::vector<double>{5, 4}),
          integers({batch},
                   zero_infinity ? std::vector<double>{3, 0, 3} : std::vector<double>{3, 1})},
         {{"blank", number(zero_infinity ? 0 : 3)}, {"zero_infinity", zero_infinity}}});
  }
  all.push_back({"Dropout", {{{4, 5}}, seed()}, {{"p", 0.4}}});
  all.push_back({"ShapedDropout", {{{4, 5}}, seed()}, {{"shape", Ints{4, 1}}, {"ratio", 0.4}}});
}

void add_attention(std::vector<Recipe>& all) {
  const char* kind = "ScaledDotProductAttention";
  all.push_back({kind, {{{3, 4}}, {{5, 4}}, {{5, 2}}}});
  all.push_back({kind, {{{2, 3, 4}}, {{2, 5, 4}}, {{2, 5, 3}}}, {{"scale", 0.3}}});
  // Causal, with as many heads of k and v, and with fewer.
  for (const std::int64_t kv_heads : {4, 2, 1}) {
    all.push_back({kind,
                   {{{2, 4, 7, 5}}, {{2, kv_heads, 7, 5}}, {{2, kv_heads, 7, 6}}},
                   {{"window", Ints{-1, 0}}}});
  }
  // Rows that see nothing, at either end.
  all.push_back({kind,
                 {{{2, 6, 3}}, {{1, 3, 3}}, {{1, 3, 3}}},
                 {{"window", Ints{1, 0}}, {"alignment", std::string("bottom_right")}}});
  all.push_back({kind, {{{2, 6, 3}}, {{1, 3, 3}}, {{1, 3, 3}}}, {{"window", Ints{1, 1}}}});
  for (const Shape& mask : {Shape{2, 4, 3, 5}, Shape{4, 1, 5}, Shape{3, 1}, Shape{}}) {
    all.push_back({kind, {{{2, 4, 3, 4}}, {{2, 2, 5, 4}}, {{2, 2, 5, 2}}, {mask}}});
  }
  const RecipeInput seen = {
      {3, 5}, 0.0, 0.0, DType::Bool, {1, 0, 1, 1, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1}};
  all.push_back({kind, {{{2, 3, 4}}, {{2, 5, 4}}, {{2, 5, 3}}, seen}, {}, {0, 1, 2}});
  all.push_back({kind,
                 {{{2, 3, 4}}, {{2, 5, 4}}, {{2, 5, 3}}, {{3, 5}}, seed(), integers({}, {4})},
                 {{"p", 0.4}, {"window", Ints{2, 0}}, {"alignment", std::string("bottom_right")}}});
}

void add_indexing(std::vector<Recipe>& all) {
  for (const char* kind : {"Gather", "TiedGather"}) {
    all.push_back({kind, {{{3, 4}}, integers({2, 2}, {3, 0, 3, 1})}, {{"axis", number(1)}}});
  }
  all.push_back({"Gather",
                 {{{2, 3, 2}}, integers({2, 2}, {2, 0, 1, 1})},
                 {{"axis", number(1)}, {"group_size", number(2)}}});
  all.push_back({"Scatter",
                 {{{3, 4}}, integers({2, 4}, {0, 1, 2, 0, 2, 0, 1, 1}), {{2, 4}}},
                 {{"axis", number(0)}}});
  for (const char* reduction : {"sum", "prod", "max", "min", "none"}) {
    const bool overwrites = std::string(reduction) == "none";
    all.push_back({"ScatterReduce",
                   {{{4, 2}}, integers({4}, {2, 0, overwrites ? 3.0 : 2.0, 1}), {{5, 2}}},
                   {{"reduction", std::string(reduction)}, {"axis", number(0)}}});
    all.push_back(
        {"ScatterReduce",
         {{{4, 2}}, integers({4}, {2, 0, overwrites ? 3.0 : 2.0, 1})},
         {{"reduction", std::string(reduction)}, {"axis", number(0)}, {"axis_size", number(4)}},
         {0}});
  }
  all.push_back({"ScatterReduce",
                 {{{6}, 0.0, 0.0, DType::Float32, {0.0, 2.0, 0.0, 3.0, 0.0, 1.5}},
                  integers({6}, {0, 0, 1, 1, 1, 2}),
                  {{4}, 0.0, 0.0, DType::Float32, {2.0, 0.5, 0.0, 0.0}}},
                 {{"reduction", std::string("prod")}, {"axis", number(0)}}});
  for (const char* reduction : {"max", "min"}) {
    const Attributes extreme = {{"reduction", std::string(reduction)}, {"axis", number(1)}};
    all.push_back({"ScatterArgReduce", {{{2, 4}}, integers({4}, {2, 0, 2, 9}), {{2, 5}}}, extreme});
    Attributes narrow = extreme;
    narrow.set("axis_size", number(3));
    narrow.set("index_broadcast", false);
    all.push_back(
        {"ScatterArgReduce", {{{3, 4}}, integers({2, 3}, {2, 0, 2, 1, 1, 0})}, narrow, {0}});
  }
  for (std::int64_t axis : {-1, 0}) {
    all.push_back({"OneHot",
                   {integers({2, 3}, {0, 2, 1, 3, 9, 0}), {{2}}},
                   {{"num_classes", number(4)}, {"axis", axis}}});
  }
  const Attributes window = {{"axes", Ints{0, 2}}, {"sizes", Ints{2, 1}}};
  all.push_back({"DynamicSlice", {{{4, 3, 2}}, integers({2}, {1, 1})}, window});
  all.push_back({"DynamicUpdate", {{{4, 3, 2}}, integers({2}, {1, 1}), {{2, 3, 1}}}, window});
}

/// Values that differ by more than a numeric gradient moves them.
RecipeInput spread(Shape shape, std::vector<double> values) {
  return {std::move(shape), 0.0, 0.0, DType::Float32, std::move(values)};
}

void add_order(std::vector<Recipe>& all) {
  for (const bool descending : {false, true}) {
    all.push_back({"Sort",
                   {spread({2, 4}, {0.5, -1.0, 2.0, 0.0, 3.0, 1.0, -2.0, 0.25})},
                   {{"axis", number(1)}, {"descending", descending}}});
  }
  for (const bool reverse : {false, true}) {
    const Attributes attributes = {{"axis", number(1)}, {"reverse", reverse}};
    all.push_back({"CumProd", {{{2, 4, 2}}}, attributes});
    all.push_back({"CumProd", {spread({1, 5}, {2.0, 0.0, -1.5, 0.0, 3.0})}, attributes});
  }
}

void add_windows(std::vector<Recipe>& all) {
  for (const char* mode : {"constant", "reflect", "edge"}) {
    all.push_back(
        {"Pad", {{{3, 4, 2}}}, {{"pads", Ints{1, 3, 0, 2, 0, 1}}, {"mode", std::string(mode)}}});
  }
  all.push_back(
      {"Pad",
       {{{3, 4}}},
       {{"pads", Ints{-1, 2, 1, -3}}, {"mode", std::string("constant")}, {"value", 2.0}}});
  all.push_back({"Pad", {{{1, 3}}}, {{"pads", Ints{2, 0, 1, 0}}, {"mode", std::string("edge")}}});
  const Attributes plane = {{"kernel_size", Ints{2, 3}},
                            {"strides", Ints{2, 1}},
                            {"pads", Ints{1, 0, 0, 2}},
                            {"dilations", Ints{1, 2}}};
  all.push_back({"Unfold", {{{2, 2, 4, 5}}}, plane});
  all.push_back({"Unfold", {{{1, 2, 6}}}, {{"kernel_size", Ints{3}}}});
  Attributes folded = plane;
  folded.set("output_size", Ints{4, 5});
  all.push_back({"Fold", {{{2, 12, 6}}}, folded});
  all.push_back(
      {"Fold", {{{1, 8, 4}}}, {{"kernel_size", Ints{2, 2}}, {"output_size", Ints{3, 3}}}});
}

void add_recurrent(std::vector<Recipe>& all) {
  constexpr std::int64_t kSteps = 3, kBatch = 2, kHidden = 5;
  const RecipeInput state = {{kBatch, kHidden}};
  for (const bool reverse : {false, true}) {
    const auto add = [&](const char* cell, std::int64_t gates, const std::vector<int>& wanted,
                         const std::vector<int>& outputs) {
      Recipe recipe{"RecurrentSequence",
                    {{{kSteps, kBatch, gates * kHidden}},
                     {{gates * kHidden, kHidden}, -1.0, 1.0},
                     {{gates * kHidden}},
                     state,
                     state},
                    {{"cell", std::string(cell)}, {"reverse", reverse}},
                    wanted,
                    outputs};
      for (std::size_t i = 2; i < recipe.inputs.size(); ++i) {
        recipe.inputs[i].absent =
            std::find(wanted.begin(), wanted.end(), static_cast<int>(i)) == wanted.end();
      }
      all.push_back(std::move(recipe));
    };
    add("lstm", 4, {0, 1, 3, 4}, {0, 2});
    add("lstm", 4, {0, 1}, {2});
    add("gru", 3, {0, 1, 2, 3}, {0});
    add("gru", 3, {0, 1}, {0});
    add("tanh", 1, {0, 1, 3}, {0});
    add("relu", 1, {0, 1}, {0});
  }
}

/// An empty group, and rows that belong to none.
void add_grouped_products(std::vector<Recipe>& all) {
  const RecipeInput ends = integers({3}, {2, 2, 5});
  all.push_back({"GroupedMatMul", {{{6, 3}}, {{3, 3, 2}}, ends}});
  all.push_back({"GroupedOuter", {{{6, 3}}, {{6, 2}}, ends}});
}

void add_linear_algebra(std::vector<Recipe>& all) {
  // Diagonals away from zero.
  const RecipeInput triangle = spread({2, 3, 3}, {2.0, 0.5, -1.0, 0.3, -1.5, 0.7, 1.0, -0.4, 3.0,
                                                  1.0, -0.5, 0.2, 0.6, 2.5, -1.0, 0.1, 0.9, -2.0});
  for (int flags = 0; flags < 8; ++flags) {
    all.push_back({"TriangularSolve",
                   {triangle, {{2, 3, 2}}},
                   {{"upper", (flags & 1) != 0},
                    {"transpose", (flags & 2) != 0},
                    {"unit_diagonal", (flags & 4) != 0}}});
  }
  all.push_back({"Cholesky",
                 {spread({2, 3, 3}, {4.0, 1.0, -0.5, 0.8, 3.0, 0.2, -0.5, 0.4, 2.0, 5.0, 0.0, 1.0,
                                     0.0, 1.0, 0.3, 1.5, 0.3, 4.0})}});
}

void add_resampling(std::vector<Recipe>& all) {
  for (const char* mode : {"nearest", "cubic"}) {
    for (const char* coordinates : {"half_pixel", "asymmetric", "align_corners"}) {
      all.push_back({"Resize",
                     {{{1, 2, 3, 4}}},
                     {{"scales", Floats{1.0, 1.0, 2.0, 1.5}},
                      {"mode", std::string(mode)},
                      {"nearest_mode", std::string("round_prefer_floor")},
                      {"coordinate_transformation_mode", std::string(coordinates)}}});
    }
  }
  all.push_back(
      {"RoiAlign",
       {{{2, 2, 6, 5}},
        {{3, 4}, 0.0, 0.0, DType::Float32, {0, 1, 6, 9, 2.5, 1.5, 8, 4, 1, 1, 1.2, 1.3}},
        integers({3}, {0, 1, 1})},
       {{"output_size", Ints{2, 3}}, {"spatial_scale", 0.5}, {"sampling_ratio", number(2)}}});
}

/// These run on one replica; tests/cpp/runtime/replicas_test.cpp has more.
void add_collectives(std::vector<Recipe>& all) {
  all.push_back({"ReplicatedReduceScatter",
                 {{{2, 3}}},
                 {{"op", std::string("local")},
                  {"sharded", false},
                  {"stride", number(1)},
                  {"group_size", number(1)}}});
  all.push_back({"TensorParallelAllReduce",
                 {{{2, 3}}},
                 {{"op", std::string("add")},
                  {"reduce", true},
                  {"reduce_gradient", false},
                  {"stride", number(1)},
                  {"group_size", number(1)}}});
  all.push_back({"ReplicatedAllGather",
                 {{{6}}},
                 {{"shape", Ints{2, 3}}, {"stride", number(1)}, {"group_size", number(1)}}});
}

}  // namespace

const std::vector<Recipe>& recipes() {
  static const std::vector<Recipe> all = [] {
    std::vector<Recipe> result;
    add_elementwise(result);
    add_shape_ops(result);
    add_reductions(result);
    add_products(result);
    add_pools(result);
    add_norms(result);
    add_networks(result);
    add_attention(result);
    add_indexing(result);
    add_order(result);
    add_windows(result);
    add_recurrent(result);
    add_grouped_products(result);
    add_linear_algebra(result);
    add_resampling(result);
    add_collectives(result);
    return result;
  }();
  return all;
}

}  // namespace pando::gradients
