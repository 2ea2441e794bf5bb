#include "tests/cpp/fuzz/generator.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <numeric>
#include <sstream>

#include "pando/base/error.hpp"
#include "pando/base/half.hpp"
#include "pando/ops/ops.hpp"

namespace pando::fuzz {
namespace {

constexpr int kMaxElements = 600;

constexpr std::array<std::string_view, 10> kFamilies = {
    "copies",    "outputs",          "wide",   "integers", "casts", "halves",
    "gradients", "gradient_outputs", "whiles", "images"};
/// Bit i: the family of kFamilies[i].
unsigned chosen_families() {
  const char* given = std::getenv("PANDO_FUZZ_FAMILIES");
  if (given == nullptr) return (1u << kFamilies.size()) - 1;
  std::istringstream words(given);
  unsigned chosen = 0;
  for (std::string word; std::getline(words, word, ',');) {
    const auto at = std::find(kFamilies.begin(), kFamilies.end(), word);
    if (at == kFamilies.end()) throw ValueError("PANDO_FUZZ_FAMILIES: no family " + word);
    chosen |= 1u << (at - kFamilies.begin());
  }
  return chosen;
}

/// Largest whole number up to which sums and products of whole numbers stay exact.
double exact_limit(DType dtype) {
  if (dtype == DType::Float16) return 2048.0;
  if (dtype == DType::BFloat16) return 256.0;
  if (dtype_bytes(dtype) < 4) return dtype_bytes(dtype) == 1 ? 0x1p6 : 0x1p14;
  return dtype == DType::Float32 ? 0x1p24 : 0x1p30;
}

/// As C++ converts `value`; numbers below 0 lose their sign where the dtype has none.
template <class T>
T element(double value) {
  return static_cast<T>(std::is_unsigned_v<T> ? std::fabs(value) : value);
}

void write_element(std::byte* data, DType dtype, std::int64_t i, double value) {
  const auto put = [&](auto element) {
    std::copy_n(reinterpret_cast<const std::byte*>(&element), sizeof element,
                data + i * std::int64_t{sizeof element});
  };
  switch (dtype) {
    case DType::Float32:
      return put(static_cast<float>(value));
    case DType::Float16:
    case DType::BFloat16:
      return put(float_to_half_precision(static_cast<float>(value), dtype));
    case DType::Int8:
      return put(element<std::int8_t>(value));
    case DType::Int16:
      return put(element<std::int16_t>(value));
    case DType::Int32:
      return put(element<std::int32_t>(value));
    case DType::UInt8:
      return put(element<std::uint8_t>(value));
    case DType::UInt16:
      return put(element<std::uint16_t>(value));
    case DType::UInt32:
      return put(element<std::uint32_t>(value));
    case DType::Bool:
      return put(static_cast<std::uint8_t>(value != 0.0));
    default:
      throw InternalError("the generator makes no such dtype");
  }
}

}  // namespace

bool is_on(Family family) {
  static const unsigned chosen = chosen_families();
  return (chosen >> static_cast<unsigned>(family) & 1u) != 0;
}

void fill_random(Random& random, DType dtype, bool exact, std::int64_t count, std::byte* data) {
  const int whole = static_cast<int>(kEntryBound);
  std::uniform_int_distribution<int> integers(dtype == DType::Bool ? 0 : -whole,
                                              dtype == DType::Bool ? 1 : whole);
  std::uniform_real_distribution<double> reals(-kEntryBound, kEntryBound);
  for (std::int64_t i = 0; i < count; ++i) {
    write_element(data, dtype, i, exact ? integers(random) : reals(random));
  }
}

void fill_reals(Random& random, DType dtype, double lowest, double highest, std::int64_t count,
                std::byte* data) {
  std::uniform_real_distribution<double> reals(lowest, highest);
  for (std::int64_t i = 0; i < count; ++i) write_element(data, dtype, i, reals(random));
}

GraphGenerator::GraphGenerator(FuzzProgram& program, Random& random, Graph& graph, const Site& site)
    : program_(program), random_(random), graph_(graph), site_(site), builder_(graph, {}) {}

bool GraphGenerator::flip(double probability) {
  return std::uniform_real_distribution<double>(0.0, 1.0)(random_) < probability;
}

int GraphGenerator::pick(int count) {
  return std::uniform_int_distribution<int>(0, count - 1)(random_);
}

Shape GraphGenerator::random_shape(int max_rank) {
  Shape shape(static_cast<std::size_t>(pick(max_rank + 1)));
  for (std::int64_t& dim : shape) dim = 1 + pick(6);
  // Now and then more than a SIMD register or a thread's share.
  if (!shape.empty() && flip(0.1))
    shape.back() = 1 + pick(300 / static_cast<int>(num_elements(shape) / shape.back()));
  return shape;
}

DType GraphGenerator::random_float_dtype() {
  if (flip(0.75)) return DType::Float32;
  return flip() ? DType::Float16 : DType::BFloat16;
}

Slot GraphGenerator::random_slot() {
  static const std::vector<DType> kDTypes = {DType::Float32, DType::Float32,  DType::Float32,
                                             DType::Float16, DType::BFloat16, DType::Int32,
                                             DType::Bool};
  static const std::vector<DType> kIntegers = {DType::Int8,   DType::UInt8,  DType::Int16,
                                               DType::UInt16, DType::UInt32, DType::Int32};
  const bool is_integer_slot = is_on(Family::Integers) && flip(0.15);
  const DType dtype = choose(is_integer_slot ? kIntegers : kDTypes);
  Slot slot{dtype, random_shape(), false};
  slot.exact = !is_floating_point(slot.dtype) || flip(0.4);
  return slot;
}

Op& GraphGenerator::op(const std::string& kind, const std::vector<Tensor*>& inputs,
                       Attributes attributes, std::vector<Graph*> called) {
  OpContext context;
  context.device = site_.stage % kPipelineDevices;
  Op& made = graph_.create_op(op_registry().get(kind), inputs, std::move(attributes), context,
                              std::move(called));
  // Everything is built in sequence.
  if (last_ != nullptr) made.run_after(*last_);
  last_ = &made;
  return made;
}

Candidate GraphGenerator::add(Tensor* tensor, ValueClass values) {
  storages_.push_back(values);
  pool_.push_back({tensor, static_cast<int>(storages_.size()) - 1});
  return pool_.back();
}

Candidate GraphGenerator::add_alias(Tensor* tensor, const Candidate& of, bool contiguous) {
  pool_.push_back({tensor, of.storage, contiguous});
  return pool_.back();
}

std::vector<Candidate> GraphGenerator::where(
    const std::function<bool(const Candidate&)>& condition) const {
  std::vector<Candidate> result;
  std::copy_if(pool_.begin(), pool_.end(), std::back_inserter(result), condition);
  return result;
}

Candidate GraphGenerator::bounded(Tensor* tensor, ValueClass values) {
  const DType dtype = tensor->dtype();
  if (dtype == DType::Bool) return add(tensor, {true, 1.0});
  if (is_integer(dtype)) values.exact = true;
  if (values.exact && values.bound > exact_limit(dtype)) values.exact = is_integer(dtype);
  const double limit = values.exact ? exact_limit(dtype) : 100.0;
  const Candidate made = add(tensor, values);
  return values.bound > limit ? clipped(made, kEntryBound) : made;
}

Candidate GraphGenerator::clipped(const Candidate& c, double bound) {
  ValueClass values = class_of(c);
  if (values.bound <= bound || c.tensor->dtype() == DType::Bool) return c;
  values.bound = bound;
  return add(op("Clip", {c.tensor}, {{"min", -bound}, {"max", bound}}).output(0), values);
}

Candidate GraphGenerator::any_float() {
  const auto floats =
      where([](const Candidate& c) { return is_floating_point(c.tensor->dtype()); });
  if (!floats.empty()) return choose(floats);
  return load(DType::Float32, random_shape(), flip());
}

Tensor* GraphGenerator::constant(DType dtype, const Shape& shape, bool exact) {
  const TensorInfo info{dtype, shape, {}};
  auto data = HostArray::allocate(info.bytes());
  fill_random(random_, dtype, exact, info.num_elements(), data->data);
  return graph_.add_constant(graph_.unique_tensor_id("c"), info, data);
}

Candidate GraphGenerator::load(DType dtype, const Shape& shape, bool exact) {
  Ir& ir = *program_.ir;
  Graph& main = ir.main_graph();
  Tensor* handle = nullptr;
  for (const auto& stream : ir.streams()) {
    if (stream->direction != StreamDirection::HostToDevice) continue;
    const Transfers& known = program_.input_streams.at(stream->handle->id());
    if (stream->handle->dtype() == dtype && stream->handle->shape() == shape &&
        known.exact == exact && known.stage == site_.stage) {
      handle = stream->handle;
    }
  }
  if (handle == nullptr) {
    handle = main.add_stream(main.unique_tensor_id("h2d"), {dtype, shape, {}});
    ir.add_stream(*handle, StreamDirection::HostToDevice);
    program_.input_streams[handle->id()] = {exact, site_.stage};
  }
  Tensor* init = op("Init", {},
                    {{"shape", Ints(shape)}, {"dtype", dtype}, {"init_type", std::string("undef")}})
                     .output(0);
  return add(op("HostLoad", {init}, {{"stream", handle->id()}}).output(0), {exact, kEntryBound});
}

void GraphGenerator::store(const Candidate& c) {
  Ir& ir = *program_.ir;
  Graph& main = ir.main_graph();
  Tensor* handle = main.add_stream(main.unique_tensor_id("d2h"), c.tensor->info);
  ir.add_stream(*handle, StreamDirection::DeviceToHost);
  op("HostStore", {c.tensor}, {{"stream", handle->id()}});
}

bool GraphGenerator::is_read_only(const Candidate& c) const {
  return std::find(read_only_.begin(), read_only_.end(), c.storage) != read_only_.end();
}

/// A tensor that fits the slot, from the pool where there is one.
Candidate GraphGenerator::of_slot(const Slot& slot, bool must_be_writable) {
  const auto fitting = where([&](const Candidate& c) {
    return c.tensor->dtype() == slot.dtype && c.tensor->shape() == slot.shape &&
           class_of(c).exact == slot.exact && !(must_be_writable && is_read_only(c)) &&
           (class_of(c).bound <= kEntryBound || !must_be_writable);
  });
  if (!fitting.empty() && flip(0.8)) return clipped(choose(fitting), kEntryBound);
  if (!must_be_writable && flip(0.3)) {
    const Candidate made =
        add(constant(slot.dtype, slot.shape, slot.exact), {slot.exact, kEntryBound});
    read_only_.push_back(made.storage);
    return made;
  }
  return load(slot.dtype, slot.shape, slot.exact);
}

/// A tensor that fits the slot, computed from the pool if possible.
Candidate GraphGenerator::coerced(const Slot& slot) {
  const auto sources = where([&](const Candidate& c) {
    return c.tensor->dtype() == slot.dtype && (class_of(c).exact || !slot.exact);
  });
  if (sources.empty()) return of_slot(slot, false);
  const auto same = where([&](const Candidate& c) {
    return c.tensor->dtype() == slot.dtype && (class_of(c).exact || !slot.exact) &&
           c.tensor->shape() == slot.shape;
  });
  if (!same.empty()) return clipped(choose(same), kEntryBound);
  const Candidate source = clipped(choose(sources), kEntryBound);
  if (slot.dtype == DType::Bool) return of_slot(slot, false);
  Ints axes(source.tensor->shape().size());
  std::iota(axes.begin(), axes.end(), std::int64_t{0});
  Tensor* scalar =
      op("ReduceMax", {source.tensor}, {{"axes", axes}, {"keepdims", false}}).output(0);
  return add(op("BroadcastTo", {scalar}, {{"shape", Ints(slot.shape)}}).output(0),
             class_of(source));
}

void GraphGenerator::add_inputs(const std::vector<Slot>& slots) {
  for (const Slot& slot : slots) {
    Tensor* input =
        graph_.add_input(graph_.unique_tensor_id("in"), {slot.dtype, slot.shape, {}}, slot.by_ref);
    const Candidate made = add(input, {slot.exact, kEntryBound});
    if (slot.by_ref) settled_.push_back(made);
  }
}

void GraphGenerator::add_variables(int count) {
  for (int i = 0; i < count; ++i) {
    const Slot slot = random_slot();
    const TensorInfo info{slot.dtype, slot.shape, {}};
    auto data = HostArray::allocate(info.bytes());
    fill_random(random_, slot.dtype, slot.exact, info.num_elements(), data->data);
    Tensor* variable = graph_.add_variable(graph_.unique_tensor_id("v"), info, data);
    program_.variables.push_back(variable);
    settled_.push_back(add(variable, {slot.exact, kEntryBound}));
  }
}

void GraphGenerator::settle() {
  for (const Candidate& c : settled_) {
    const Candidate small = clipped(c, kEntryBound);
    if (small.tensor != c.tensor) op("CopyVarUpdate", {c.tensor, small.tensor});
  }
}

void GraphGenerator::set_outputs(const std::vector<Slot>& slots) {
  std::vector<Tensor*> outputs;
  for (const Slot& slot : slots) outputs.push_back(output_of_slot(slot, outputs));
  graph_.set_outputs(outputs);
}

void GraphGenerator::store_everything() {
  const std::vector<Candidate> all = pool_;
  for (const Candidate& c : all) {
    if (flip(0.3)) store(c);
  }
  store(pool_.back());
}

void GraphGenerator::begin_next_stage() {
  std::vector<int> state = hidden_;
  for (const Candidate& variable : settled_) state.push_back(variable.storage);
  std::erase_if(pool_, [&](const Candidate& c) {
    return std::find(state.begin(), state.end(), c.storage) != state.end();
  });
  settled_.clear();
  for (const Candidate& c : pool_) read_only_.push_back(c.storage);
  ++site_.stage;
  last_ = nullptr;
}

/// Large results would make the reference slow.
void GraphGenerator::drop_large() {
  std::erase_if(pool_,
                [](const Candidate& c) { return c.tensor->info.num_elements() > kMaxElements; });
}

void GraphGenerator::add_random_ops(int count) {
  const auto limit = static_cast<std::size_t>(count) + graph_.ops().size();
  while (graph_.ops().size() < limit) {
    drop_large();
    random_op();
  }
}

namespace {

/// Makes every body too large for inlining as a small graph, and gives each a second call site.
void prevent_inlining(FuzzProgram& program) {
  std::vector<Body> bodies = program.bodies;
  bodies.insert(bodies.end(), program.differentiated.begin(), program.differentiated.end());
  if (bodies.empty()) return;
  Ir& ir = *program.ir;
  Graph& never = ir.create_graph("never_called");
  for (const Body& body : bodies) {
    OpBuilder builder(*body.graph, {});
    Tensor* chain = builder.constant(1.0, DType::Float32);
    for (int i = 0; i < 12; ++i) chain = builder.make("Neg", {chain});
    std::vector<Tensor*> arguments;
    for (const Slot& slot : body.inputs) {
      arguments.push_back(
          never.add_input(never.unique_tensor_id("in"), {slot.dtype, slot.shape, {}}));
    }
    never.create_op(op_registry().get("Call"), arguments, {}, {}, {body.graph});
  }
}

}  // namespace

namespace {

FuzzProgram empty_program(std::uint64_t seed, std::int64_t replicas) {
  op_registry();
  FuzzProgram program;
  program.seed = seed;
  program.ir = std::make_unique<Ir>();
  program.ir->replication_factor = replicas;
  return program;
}

}  // namespace

FuzzProgram random_program(std::uint64_t seed, bool keep_calls) {
  const std::int64_t replicas = seed % 4 != 1 ? 1 : seed % 16 == 1 ? 4 : 2;
  FuzzProgram program = empty_program(seed, replicas);
  Random random(seed);
  std::uniform_int_distribution<int> sizes(4, 40);
  GraphGenerator generator(program, random, program.ir->main_graph(), {});
  generator.add_variables(1 + static_cast<int>(seed % 3));
  generator.add_random_ops(sizes(random));
  generator.settle();
  generator.store_everything();
  if (keep_calls) prevent_inlining(program);
  return program;
}

FuzzProgram random_pipeline(std::uint64_t seed) {
  Random random(seed);
  const auto number = [&](int first, int last) {
    return std::uniform_int_distribution<int>(first, last)(random);
  };
  FuzzProgram program = empty_program(seed, number(1, 4) == 1 ? 2 : 1);
  const Graph& main = program.ir->main_graph();
  GraphGenerator generator(program, random, program.ir->main_graph(), {});
  const int num_stages = number(2, 4);
  for (int stage = 0; stage < num_stages; ++stage) {
    if (stage > 0) generator.begin_next_stage();
    generator.add_variables(number(1, 2));
    generator.add_random_ops(number(2, 12));
    generator.settle();
    generator.store_everything();
    while (program.stages.size() < main.ops().size()) {
      program.stages.emplace_back(main.ops()[program.stages.size()], stage);
    }
  }
  program.steps = number(num_stages, 2 * num_stages + 2);
  return program;
}

}  // namespace pando::fuzz
