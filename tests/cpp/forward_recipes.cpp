#include "tests/cpp/gradient_recipes.hpp"

namespace pando::gradients {
namespace {

RecipeInput absent() {
  RecipeInput none;
  none.absent = true;
  return none;
}

RecipeInput scalar(double value, DType dtype = DType::Float32) {
  return {{}, 0.0, 0.0, dtype, {value}};
}

void add_adam(std::vector<Recipe>& all) {
  for (const char* mode : {"Adam", "AdamNoBias", "AdaMax", "Lamb", "LambNoBias"}) {
    const bool corrects = std::string(mode).find("NoBias") == std::string::npos;
    for (const DType dtype : {DType::Float32, DType::Float16, DType::BFloat16}) {
      for (const bool decays : {false, true}) {
        Attributes attributes = {
            {"mode", std::string(mode)}, {"beta1", 0.75}, {"beta2", 0.99}, {"epsilon", 0.125}};
        if (decays) attributes.set("weight_decay", 0.25);
        const RecipeInput weight = {{2, 3}, -1.0, 1.0, dtype};
        all.push_back({"AdamUpdater",
                       {weight,
                        {{2, 3}, -1.0, 1.0, dtype},
                        {{2, 3}, 0.5, 2.0},
                        corrects ? scalar(4.0) : absent()},
                       attributes});
      }
    }
  }
  all.push_back({"AdamUpdater",
                 {absent(),
                  {{3}},
                  {{3}, 0.5, 2.0},
                  scalar(0.0),
                  absent(),
                  scalar(0.9),
                  scalar(0.999),
                  scalar(1e-3)},
                 {{"mode", std::string("Adam")}}});
  for (const double most : {0.5, 10.0}) {
    all.push_back(
        {"AdamVarUpdate", {{{4}}, {{4}}, scalar(2.0), scalar(3.0), scalar(0.25), scalar(most)}});
    all.push_back({"AdamVarUpdate",
                   {{{4}}, {{4}}, scalar(2.0), scalar(0.0)},
                   {{"learning_rate", 0.25}, {"max_weight_norm", most}}});
  }
  all.push_back(
      {"AdamVarUpdate", {{{4}}, {{4}}, scalar(0.0), scalar(3.0)}, {{"learning_rate", 0.25}}});
  all.push_back({"LambSquare", {{{3, 4}}}});
  all.push_back({"SparseAccumulate",
                 {{{4, 3}}, {{5, 3}}, absent(), {{5}, 0.0, 0.0, DType::Int32, {0, 3, 3, 1, 3}}},
                 {{"axis", number(0)}, {"factor", -0.5}}});
}

/// Rows at indices that repeat, that are out of range, and those of a whole gradient that are not
/// 0.
void add_sparse_adam(std::vector<Recipe>& all) {
  const RecipeInput indices = {{4}, 0.0, 0.0, DType::Int32, {2, 0, 2, 7}};
  const RecipeInput moment = {{3, 4, 2}}, square = {{3, 4, 2}, 0.5, 2.0};
  const RecipeInput gradient = {{3, 2}, 0.0, 0.0, DType::Float32, {0.0, 0.0, 0.5, 0.0, -0.25, 1.0}};
  const Attributes constants = {{"learning_rate", 0.25}, {"beta1", 0.75}, {"beta2", 0.875}};
  const auto with = [&](Attributes more) {
    for (const auto& [name, value] : constants) more.set(name, value);
    return more;
  };
  all.push_back({"SparseAdam",
                 {{{3, 4, 2}}, moment, square, {{3, 4, 2}}, indices, scalar(2.0)},
                 with({{"axis", number(1)}, {"weight_decay", 0.5}, {"epsilon", 0.125}})});
  all.push_back({"SparseAdam",
                 {{{3, 2}, -1.0, 1.0, DType::BFloat16},
                  {{3, 2}, -1.0, 1.0, DType::Float16},
                  {{3, 2}, 0.5, 2.0},
                  gradient},
                 with({{"axis", number(0)}})});
  all.push_back({"SparseAdam",
                 {{{3, 2}},
                  {{3, 2}},
                  {{3, 2}, 0.5, 2.0},
                  gradient,
                  {{3}, 0.0, 0.0, DType::Int32, {1, 2, 0}},
                  absent(),
                  scalar(0.5),
                  scalar(0.125),
                  scalar(0.75),
                  scalar(0.5),
                  scalar(0.25)},
                 {{"axis", number(0)}, {"skip_zero_rows", true}}});
}

void add_replicas(std::vector<Recipe>& all) {
  for (const char* how : {"add", "mean", "mul", "min", "max", "square_add", "and", "or"}) {
    for (const char* form : {"plain", "identical_inputs", "identical_grads"}) {
      all.push_back(
          {"AllReduce",
           {{{2, 3}}, {{2, 3}}, {{2, 3}}},
           {{"op", std::string(how)}, {"devices", Ints{0, 1, 2}}, {"form", std::string(form)}},
           {},
           {0, 1, 2}});
    }
    const Attributes alone = {
        {"op", std::string(how)}, {"stride", number(1)}, {"group_size", number(1)}};
    all.push_back({"ReplicatedAllReduce", {{{2, 3}}}, alone});
    all.push_back({"ReplicatedAllReduceInplace", {{{2, 3}}}, alone});
  }
}

void add_forward_products(std::vector<Recipe>& all) {
  const RecipeInput left = {{2, 3}, -2.0, 2.0, DType::Float8_143};
  const RecipeInput right = {{3, 4}, -2.0, 2.0, DType::Float8_152};
  all.push_back({"MatMul", {left, right, scalar(-2.0, DType::Int32)}});
  all.push_back({"MatMul",
                 {{{2, 3}, -2.0, 2.0, DType::Float16}, {{3, 4}, -2.0, 2.0, DType::Float16}},
                 {{"output_type", DType::Float32}}});
  all.push_back({"MatMul",
                 {{{2, 3}, -2.0, 2.0, DType::BFloat16}, {{3, 4}, -2.0, 2.0, DType::Float16}},
                 {{"output_type", DType::BFloat16}}});
  const RecipeInput data = {{1, 2, 4, 4}, -2.0, 2.0, DType::Float8_143};
  const RecipeInput kernel = {{2, 2, 3, 3}, -2.0, 2.0, DType::Float8_152};
  for (const char* kind : {"Conv", "ConvTranspose"}) {
    all.push_back({kind, {data, kernel, scalar(1.0, DType::Int32)}});
  }
  all.push_back({"ConvTranspose",
                 {{{1, 2, 3, 3}}, {{2, 2, 2, 2}}},
                 {{"strides", Ints{2, 2}}, {"pads", Ints{1, 0, 0, 1}}, {"groups", number(2)}}});
  all.push_back({"BatchNormalization",
                 {{{2, 3, 4}}, {{3}}, {{3}}, {{3}}, {{3}, 0.5, 2.0}},
                 {{"epsilon", 1e-3}}});
  all.push_back({"BatchNormalization",
                 {{{2, 4, 3}}, {{3}}, {{3}}, {{3}}, {{3}, 0.5, 2.0}},
                 {{"epsilon", 1e-3}, {"channel_last", true}}});
}

void add_rest(std::vector<Recipe>& all) {
  for (const DType dtype : {DType::Float32, DType::Float16, DType::BFloat16}) {
    const Attributes common = {{"shape", Ints{40}}, {"dtype", dtype}};
    Attributes uniform = common, normal = common;
    uniform.set("low", -1.0);
    uniform.set("high", 2.0);
    normal.set("mean", 0.5);
    normal.set("std", 2.0);
    all.push_back({"RandomUniform", {seed()}, uniform});
    all.push_back({"RandomNormal", {seed()}, normal});
  }
  all.push_back({"ModifyRandomSeed", {seed(), scalar(7.0, DType::UInt32)}});
  all.push_back(
      {"Init",
       {},
       {{"shape", Ints{2, 3}}, {"dtype", DType::Float32}, {"init_type", std::string("zero")}}});
  const std::pair<DType, std::vector<double>> near_limits[] = {
      {DType::UInt8, {0.0, 252.0, 253.0, 255.0}},
      {DType::Int8, {-128.0, -1.0, 125.0, 127.0}},
      {DType::UInt16, {0.0, 65532.0, 65533.0, 65535.0}},
      {DType::Int16, {-32768.0, 32764.0, 32765.0, 32767.0}},
      {DType::Int32, {-5.0, 4.0, 7.0, 2147483646.0}},
      {DType::UInt32, {0.0, 3.0, 7.0, 4294967294.0}}};
  for (const auto& [dtype, values] : near_limits) {
    all.push_back(
        {"IncrementMod", {{{4}, 0.0, 0.0, dtype, values}}, {{"increment", 3.0}, {"modulus", 5.0}}});
  }
  for (const char* kind : {"IncrementMod", "IncrementModInplace"}) {
    all.push_back({kind, {{{5}}}, {{"increment", 1.5}, {"modulus", 1.0}}});
  }
}

}  // namespace

std::vector<Recipe> forward_recipes() {
  std::vector<Recipe> all;
  add_adam(all);
  add_sparse_adam(all);
  add_replicas(all);
  add_forward_products(all);
  add_rest(all);
  return all;
}

}  // namespace pando::gradients
