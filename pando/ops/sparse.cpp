// Updates of some rows of a table. A row is what has one index along an axis.
#include <algorithm>
#include <array>

#include "pando/ops/nn_rules.hpp"
#include "pando/ops/ops.hpp"
#include "pando/ops/rules.hpp"

namespace pando {
namespace {

using enum AttributeType;

void check_scalar(const Op& op, int index, const char* role) {
  const Tensor* t = op.input(index);
  check_inputs(op, t == nullptr || t->info.num_elements() == 1,
               str_cat("wanted a tensor with one element for '", role, "'"));
}

/// The shape of `x`, in which the dimensions of `indices` come in place of an axis, with the number
/// of indices there.
Shape shape_of_rows(const Op& op, const Tensor& x, const Tensor& indices) {
  const std::int64_t axis = op.attributes.integer("axis");
  const auto inner = static_cast<std::int64_t>(indices.shape().size());
  check_inputs(op, axis >= 0 && axis + inner <= rank_of(x), "wanted X of a rank above the axis");
  const auto first = x.shape().begin() + axis, last = first + inner;
  check_inputs(op, std::equal(first, last, indices.shape().begin()),
               "wanted the dimensions of indices in X in place of the axis");
  Shape shape(x.shape().begin(), first);
  shape.push_back(indices.info.num_elements());
  shape.insert(shape.end(), last, x.shape().end());
  return shape;
}

OpDef coalesce_rows() {
  OpDef def;
  def.name = "CoalesceRows";
  def.doc =
      "Internal. Inputs: 0 X (float; the shape of a table with dimension axis replaced by that of "
      "indices), 1 indices (integer). Attributes: axis, size (rows of the table), skip_zero_rows "
      "(default false: whether rows that add up to 0 everywhere are left out). Outputs: 0 the sums "
      "of the rows of equal index in the order of the indices, X with one dimension for all "
      "indices, "
      "1 int64 (number of indices,) the index of each sum, rising. Behind the last sum there are "
      "zeros with index -1. Indices out of range are left out.";
  def.min_inputs = def.max_inputs = 2;
  def.attributes = {{"axis", Integer}, {"size", Integer}, {"skip_zero_rows", Flag, false}};
  def.infer = [](const Op& op) {
    const Tensor& x = needed_input(op, 0, "X");
    const Tensor& indices = needed_input(op, 1, "indices");
    return std::vector<TensorInfo>{plain_info(x.dtype(), shape_of_rows(op, x, indices)),
                                   plain_info(DType::Int64, {indices.info.num_elements()})};
  };
  def.check_execution = [](const Op& op) {
    require_float(op, 0);
    require_integer(op, 1);
    constexpr std::int64_t kMost = std::int64_t{1} << 32;
    check_inputs(
        op, op.attributes.integer("size") <= kMost && op.input(1)->info.num_elements() <= kMost,
        "wanted at most 2^32 rows and indices");
  };
  return def;
}

OpDef update_rows() {
  OpDef def;
  def.name = "UpdateRows";
  def.doc =
      "Internal. Updates input 0 in place: row indices[p] along the axis becomes row p of X. "
      "Inputs: 0 t, 1 X (t's shape with the number of indices at axis, t's dtype), 2 indices (an "
      "integer vector; no two in range are equal, those out of range are skipped). Attributes: "
      "axis.";
  def.min_inputs = def.max_inputs = 3;
  def.attributes = {{"axis", Integer}};
  def.infer = [](const Op& op) {
    const Tensor& t = needed_input(op, 0, "t");
    const Tensor& x = needed_input(op, 1, "X");
    const Tensor& indices = needed_input(op, 2, "indices");
    const std::int64_t axis = axis_attribute(op, rank_of(t));
    check_inputs(op, rank_of(indices) == 1, "wanted a vector of indices");
    const Shape wanted = splice_shape(t.shape(), axis, indices.shape());
    check_inputs(op, x.shape() == wanted, str_cat("wanted X of shape ", shape_text(wanted)));
    return std::vector<TensorInfo>{t.info};
  };
  def.check_execution = [](const Op& op) {
    require_same_dtype(op, 0, 1);
    require_integer(op, 2);
  };
  def.modified_inputs = modifies_first;
  def.output_alias = aliases_first;
  return def;
}

/// Some rows of tables of one shape, and the gradient of each.
class TouchedRows {
 public:
  virtual ~TouchedRows() = default;
  /// A copy of the rows of `table`.
  virtual Tensor* read(Tensor* table) const = 0;
  /// Replaces these rows in `table` and gives it.
  virtual Tensor* write(Tensor* table, Tensor* rows) const = 0;

  Tensor* gradient = nullptr;
};

/// Rows with given indices.
class ListedRows : public TouchedRows {
 public:
  ListedRows(OpBuilder& builder, const Op& op, Tensor* x, Tensor* indices)
      : builder_(builder), axis_(pick_attributes(op, {"axis"})), indices_(indices) {
    gradient = x;
    if (op.attributes.flag_or("coalesced", false)) return;
    Attributes attributes = pick_attributes(op, {"axis", "skip_zero_rows"});
    const auto axis = static_cast<std::size_t>(op.attributes.integer("axis"));
    attributes.set("size", op.input(0)->shape()[axis]);
    const Op& sums = builder.op("CoalesceRows", {x, indices}, attributes);
    gradient = sums.output(0);
    indices_ = sums.output(1);
  }

  Tensor* read(Tensor* table) const override {
    return builder_.make("Gather", {table, indices_}, axis_);
  }
  Tensor* write(Tensor* table, Tensor* rows) const override {
    return builder_.make("UpdateRows", {table, rows, indices_}, axis_);
  }

 private:
  OpBuilder& builder_;
  Attributes axis_;
  Tensor* indices_;
};

/// All rows whose gradient has an element other than 0; the others stay.
class NonzeroRows : public TouchedRows {
 public:
  NonzeroRows(OpBuilder& builder, const Op& op, Tensor* x) : builder_(builder) {
    gradient = x;
    Ints others;
    for (std::int64_t d = 0; d < rank_of(*x); ++d) {
      if (d != op.attributes.integer("axis")) others.push_back(d);
    }
    Tensor* zero = builder.make("Equal", {x, builder.constant(0.0, x->dtype())});
    Tensor* all_zero = builder.make("ReduceMin", {builder.cast(zero, DType::Float32)},
                                    {{"axes", others}, {"keepdims", true}});
    touched_ = builder.make("Equal", {all_zero, builder.constant(0.0, DType::Float32)});
  }

  Tensor* read(Tensor* table) const override { return builder_.make("Identity", {table}); }
  Tensor* write(Tensor* table, Tensor* rows) const override {
    return builder_.make("CopyVarUpdate", {table, builder_.make("Where", {touched_, rows, table})});
  }

 private:
  OpBuilder& builder_;
  Tensor* touched_;
};

// SparseAccumulate

std::vector<Tensor*> expand_sparse_accumulate(OpBuilder& builder, const Op& op) {
  Tensor* t = op.input(0);
  const DType compute = t->dtype() == DType::Float64 ? DType::Float64 : DType::Float32;
  const ListedRows rows(builder, op, builder.cast(op.input(1), compute), op.input(3));
  Attributes factor{{"a", 1.0}};
  if (op.input(2) == nullptr) factor.set("b", op.attributes.number_or("factor", 1.0));
  Tensor* sum = builder.make("ScaledAddLhsInplace",
                             {rows.read(t), rows.gradient, nullptr, op.input(2)}, factor);
  return {rows.write(t, sum)};
}

OpDef sparse_accumulate() {
  OpDef def;
  def.name = "SparseAccumulate";
  def.doc =
      "Updates input 0 in place: t[indices[p]] += f * X[p] along the axis; repeated indices add "
      "up, in float32 (float64 for such t), before the one rounding of the update. Inputs: 0 t, 1 "
      "X "
      "(t's shape with dimension axis replaced by the shape of indices), 2 "
      "factor (optional scalar), 3 indices (integer), 4 W (optional layout hint, unused). "
      "Attributes: axis, factor (constant, default 1).";
  def.min_inputs = 4;
  def.max_inputs = 5;
  def.attributes = {{"axis", Integer}, {"factor", Number, false}};
  def.infer = [](const Op& op) {
    const Tensor& t = needed_input(op, 0, "t");
    const Tensor& x = needed_input(op, 1, "X");
    const Tensor& indices = needed_input(op, 3, "indices");
    check_scalar(op, 2, "factor");
    const std::int64_t axis = axis_attribute(op, rank_of(t));
    const Shape wanted = splice_shape(t.shape(), axis, indices.shape());
    check_inputs(op, x.shape() == wanted, str_cat("wanted X of shape ", shape_text(wanted)));
    return std::vector<TensorInfo>{t.info};
  };
  def.check_execution = [](const Op& op) {
    require_float(op, 0);
    require_arithmetic(op, 1);
    require_integer(op, 3);
  };
  def.modified_inputs = modifies_first;
  def.output_alias = aliases_first;
  def.expand = expand_sparse_accumulate;
  return def;
}

// SparseAdam

/// Inputs of SparseAdam by index.
enum SparseAdamInput {
  kTable,
  kFirst,
  kSecond,
  kGradient,
  kIndices,
  kStep,
  kLearningRate,
  kWeightDecay,
  kBeta1,
  kBeta2,
  kEpsilon
};

constexpr std::array<const char*, kEpsilon + 1> kRoles = {
    "t",       "acc_first_order", "acc_second_order", "X",
    "indices", "time_step",       "learning_rate",    "weight_decay",
    "beta1",   "beta2",           "epsilon"};

bool is_given(const Op& op, int index) {
  return op.input(index) != nullptr || op.attributes.has(kRoles[static_cast<std::size_t>(index)]);
}

void check_sparse_adam(const Op& op) {
  const Tensor& t = needed_input(op, kTable, "t");
  for (int index : {kFirst, kSecond}) {
    const char* role = kRoles[static_cast<std::size_t>(index)];
    check_inputs(op, needed_input(op, index, role).shape() == t.shape(),
                 str_cat("wanted ", role, " of t's shape"));
  }
  const Tensor& x = needed_input(op, kGradient, "X");
  const std::int64_t axis = axis_attribute(op, rank_of(t));
  const Tensor* indices = op.input(kIndices);
  const Shape wanted =
      indices == nullptr ? t.shape() : splice_shape(t.shape(), axis, indices->shape());
  check_inputs(op, x.shape() == wanted, str_cat("wanted X of shape ", shape_text(wanted)));
  for (int index = kStep; index <= kEpsilon; ++index) {
    check_scalar(op, index, kRoles[static_cast<std::size_t>(index)]);
  }
  for (int index : {kLearningRate, kBeta1, kBeta2}) {
    check_inputs(
        op, is_given(op, index),
        str_cat("wanted ", kRoles[static_cast<std::size_t>(index)], ": it has no default"));
  }
}

/// Attribute `name` of the op, under the name that another op has for it, where input `index` is
/// absent.
Attributes constant_of(const Op& op, int index, const char* name, Attributes attributes) {
  const char* own = kRoles[static_cast<std::size_t>(index)];
  if (op.input(index) == nullptr) attributes.set(name, op.attributes.number(own));
  return attributes;
}

Tensor* accumulate(OpBuilder& builder, const Op& op, Tensor* moment, Tensor* x, int beta,
                   const char* type) {
  return builder.make("Accumulate", {moment, x, op.input(beta)},
                      constant_of(op, beta, "factor", {{"type", std::string(type)}}));
}

/// Adam on the rows, by the ops that update whole variables.
Tensor* update_with_adam(OpBuilder& builder, const Op& op, const TouchedRows& rows) {
  Tensor* weight = rows.read(op.input(kTable));
  Tensor* first =
      accumulate(builder, op, rows.read(op.input(kFirst)), rows.gradient, kBeta1, "MovingAverage");
  Tensor* second = accumulate(builder, op, rows.read(op.input(kSecond)), rows.gradient, kBeta2,
                              "MovingAverageSquare");
  const bool corrects = op.input(kStep) != nullptr;
  const bool decays =
      op.input(kWeightDecay) != nullptr || op.attributes.number_or("weight_decay", 0.0) != 0.0;
  Attributes attributes = pick_attributes(op, {"weight_decay", "beta1", "beta2", "epsilon"});
  attributes.set("mode", std::string(corrects ? "Adam" : "AdamNoBias"));
  Tensor* step =
      builder.make("AdamUpdater",
                   {decays ? weight : nullptr, first, second, op.input(kStep),
                    op.input(kWeightDecay), op.input(kBeta1), op.input(kBeta2), op.input(kEpsilon)},
                   attributes);
  Tensor* rate = op.input(kLearningRate);
  Attributes scale{{"a", 1.0}};
  if (rate == nullptr) scale.set("b", -op.attributes.number("learning_rate"));
  weight = builder.make(
      "ScaledAddLhsInplace",
      {weight, step, nullptr, rate == nullptr ? nullptr : builder.make("Neg", {rate})}, scale);
  rows.write(op.input(kFirst), first);
  rows.write(op.input(kSecond), second);
  return rows.write(op.input(kTable), weight);
}

std::vector<Tensor*> expand_sparse_adam(OpBuilder& builder, const Op& op) {
  Tensor* x = op.input(kGradient);
  if (op.input(kIndices) == nullptr) {
    return {update_with_adam(builder, op, NonzeroRows(builder, op, x))};
  }
  // Sums of half-precision rows are not rounded on the way.
  if (is_half_precision(x->dtype())) x = builder.cast(x, DType::Float32);
  return {update_with_adam(builder, op, ListedRows(builder, op, x, op.input(kIndices)))};
}

OpDef sparse_adam() {
  OpDef def;
  def.name = "SparseAdam";
  def.doc =
      "Adam on some rows of a table, in place: m = beta1*m + (1-beta1)*g, v = beta2*v + "
      "(1-beta2)*g^2, t -= learning_rate * (mc / (sqrt(vc) + epsilon) + weight_decay*t), mc and vc "
      "as in AdamUpdater. Other rows of t, m and v stay as they are. Inputs: 0 t, 1 "
      "acc_first_order m, 2 acc_second_order v, 3 X, 4 indices (optional integers), 5 time_step "
      "(optional float32 scalar, incremented in place first), 6 learning_rate, 7 weight_decay, 8 "
      "beta1, 9 beta2, 10 epsilon (optional scalars). Attributes: axis, learning_rate, "
      "weight_decay, beta1, beta2, epsilon (constants where the input is absent), skip_zero_rows, "
      "coalesced (default false: indices are rising and -1 behind the last). With indices, X has "
      "t's shape with dimension axis replaced by theirs, g is the sum of the rows of X of one "
      "index, "
      "and the rows are those with an index, with skip_zero_rows those whose g is not all 0. "
      "Without, g is X of t's shape, and the rows are those that are not all 0 in it.";
  def.min_inputs = 4;
  def.max_inputs = kEpsilon + 1;
  def.attributes = {{"axis", Integer},
                    {"learning_rate", Number, false},
                    {"weight_decay", Number, false},
                    {"beta1", Number, false},
                    {"beta2", Number, false},
                    {"epsilon", Number, false},
                    {"skip_zero_rows", Flag, false},
                    {"coalesced", Flag, false}};
  def.infer = [](const Op& op) {
    check_sparse_adam(op);
    return std::vector<TensorInfo>{op.input(kTable)->info};
  };
  def.check_execution = [](const Op& op) {
    for (int index : {kTable, kFirst, kSecond, kGradient}) require_float(op, index);
    if (op.input(kIndices) != nullptr) require_integer(op, kIndices);
  };
  def.modified_inputs = [](const Op& op) {
    InputSet written{kTable, kFirst, kSecond};
    if (op.input(kStep) != nullptr) written.insert(kStep);
    return written;
  };
  def.output_alias = aliases_first;
  def.expand = expand_sparse_adam;
  return def;
}

}  // namespace

void register_sparse_ops(Registry& registry) {
  registry.add(coalesce_rows());
  registry.add(update_rows());
  registry.add(sparse_accumulate());
  registry.add(sparse_adam());
}

}  // namespace pando
