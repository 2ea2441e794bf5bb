// Trains the four-layer GELU network of the tutorials with Adam for one epoch, with a learning
// rate that falls linearly to zero, then evaluates it with a second, inference-only program. Uses
// the C++ API alone.
//
//   example_train_mnist [FOLDER]   FOLDER holds the four IDX files, plain or .gz
#include <zlib.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <map>
#include <numeric>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "pando/pando.hpp"

namespace {

using namespace pando;

constexpr const char* kDefaultFolder = "/usr/share/datasets/fashion-mnist";
constexpr std::int64_t kPixels = 28 * 28;
constexpr std::array<std::int64_t, 5> kWidths = {kPixels, 512, 512, 512, 10};
constexpr std::int64_t kTrainBatch = 8;
constexpr std::int64_t kTestBatch = 80;
constexpr float kLearningRate = 1e-3f;  // of the first step

/// Contents of an IDX file after its header. gzread reads plain files as they are.
std::vector<std::uint8_t> read_idx(const std::filesystem::path& folder, const std::string& name) {
  std::filesystem::path path = folder / (name + ".gz");
  if (!std::filesystem::exists(path)) path = folder / name;
  gzFile file = gzopen(path.c_str(), "rb");
  if (file == nullptr) throw ValueError("cannot open " + path.string());
  std::vector<std::uint8_t> bytes;
  std::array<std::uint8_t, 1 << 16> chunk;
  int count = 0;
  while ((count = gzread(file, chunk.data(), static_cast<unsigned>(chunk.size()))) > 0) {
    bytes.insert(bytes.end(), chunk.begin(), chunk.begin() + count);
  }
  gzclose(file);
  const std::size_t header = bytes.size() < 4 ? 4 : 4 + 4 * std::size_t{bytes[3]};
  if (count < 0 || bytes.size() <= header || bytes[2] != 0x08) {
    throw ValueError(path.string() + " is not a complete IDX file of bytes");
  }
  return {bytes.begin() + static_cast<std::ptrdiff_t>(header), bytes.end()};
}

struct DataSet {
  std::vector<float> images;  // (count, 784), normalised
  std::vector<std::int32_t> labels;
  std::int64_t count() const { return static_cast<std::int64_t>(labels.size()); }
};

DataSet load(const std::filesystem::path& folder, const std::string& prefix) {
  constexpr float kMean = 0.2860f, kDeviation = 0.3530f;  // of the Fashion-MNIST training images
  DataSet data;
  for (std::uint8_t pixel : read_idx(folder, prefix + "-images-idx3-ubyte")) {
    data.images.push_back((static_cast<float>(pixel) / 255.0f - kMean) / kDeviation);
  }
  for (std::uint8_t label : read_idx(folder, prefix + "-labels-idx1-ubyte")) {
    data.labels.push_back(label);
  }
  if (data.count() * kPixels != static_cast<std::int64_t>(data.images.size())) {
    throw ValueError("there are not as many images as labels in " + folder.string());
  }
  return data;
}

/// The forward function: inputs x, then weight and bias of every layer; output logits.
Graph& build_network(Ir& ir, std::int64_t batch) {
  Graph& graph = ir.create_graph("Net");
  OpBuilder builder(graph, {});
  const auto input = [&](const std::string& name, const Shape& shape) {
    return graph.add_input(graph.unique_tensor_id(name), {DType::Float32, shape, {}});
  };
  Tensor* x = input("x", {batch, kPixels});
  for (std::size_t layer = 0; layer + 1 < kWidths.size(); ++layer) {
    Tensor* weight = input("weight", {kWidths[layer], kWidths[layer + 1]});
    Tensor* bias = input("bias", {kWidths[layer + 1]});
    x = ops::add(builder, ops::mat_mul(builder, x, weight), bias);
    if (layer + 2 < kWidths.size()) x = ops::gelu(builder, x);
  }
  graph.mark_output(x);
  return graph;
}

/// Adam for one variable: inputs by reference (variable, m, v), the gradient and minus the learning
/// rate.
Graph& build_adam(Ir& ir, const TensorInfo& info) {
  Graph& graph = ir.create_graph("Adam");
  OpBuilder builder(graph, {});
  const auto input = [&](const char* name, DType dtype, bool by_ref) {
    return graph.add_input(graph.unique_tensor_id(name), {dtype, info.shape, {}}, by_ref);
  };
  Tensor* variable = input("variable", info.dtype, true);
  Tensor* gradient = input("gradient", info.dtype, false);
  Tensor* m = input("first_order", DType::Float16, true);
  Tensor* v = input("second_order", DType::Float32, true);
  Tensor* minus_rate =
      graph.add_input(graph.unique_tensor_id("minus_rate"), {DType::Float32, {}, {}});
  Op* last = nullptr;
  const auto after = [&last](Op& op) -> Op& {
    if (last != nullptr) op.run_after(*last);
    last = &op;
    return op;
  };
  after(ops::accumulate(builder, m, gradient, {.type = "MovingAverage", .factor = 0.9}));
  after(ops::accumulate(builder, v, gradient, {.type = "MovingAverageSquare", .factor = 0.999}));
  Op& update =
      after(ops::adam_updater(builder, nullptr, m, v, {.mode = "AdamNoBias", .epsilon = 1e-5}));
  after(ops::scaled_add_lhs_inplace(builder, variable, update.output(0), {.a = 1.0}, nullptr,
                                    minus_rate));
  return graph;
}

Tensor* load_stream(Graph& main, const char* name, const TensorInfo& info) {
  Tensor* handle = main.add_stream(main.unique_tensor_id(name), info);
  main.ir().add_stream(*handle, StreamDirection::HostToDevice);
  OpBuilder builder(main, {});
  Tensor* init =
      ops::init(builder, {.shape = info.shape, .dtype = info.dtype, .init_type = "undef"});
  return ops::host_load(builder, init, {.stream = handle->id()});
}

void store_stream(Graph& main, const char* name, Tensor* value) {
  Tensor* handle = main.add_stream(main.unique_tensor_id(name), value->info);
  main.ir().add_stream(*handle, StreamDirection::DeviceToHost);
  OpBuilder builder(main, {});
  ops::host_store(builder, value, {.stream = handle->id()});
}

Tensor* variable(Graph& main, std::string_view name, const TensorInfo& info) {
  auto data = HostArray::allocate(info.bytes());
  std::memset(data->data, 0, info.bytes());
  return main.add_variable(main.unique_tensor_id(name), info, std::move(data));
}

/// One variable per network input after x; weights drawn from a normal distribution.
std::vector<Tensor*> make_variables(Graph& main, const Graph& network, std::mt19937& random) {
  std::normal_distribution<float> normal(0.0f, 0.02f);
  std::vector<Tensor*> variables;
  for (std::size_t i = 1; i < network.inputs().size(); ++i) {
    Tensor* tensor = variable(main, network.inputs()[i]->name(), network.inputs()[i]->info);
    auto* values = reinterpret_cast<float*>(tensor->data->data);
    if (tensor->shape().size() == 2) {
      std::generate_n(values, tensor->info.num_elements(), [&] { return normal(random); });
    }
    variables.push_back(tensor);
  }
  return variables;
}

Op& call(Graph& main, Graph& callee, const std::vector<Tensor*>& inputs, Ints modified = {}) {
  OpBuilder builder(main, {});
  return ops::call(builder, callee, inputs, {.modified = std::move(modified)});
}

/// Calls the gradient graph, then one Adam step per variable.
void build_update(Ir& ir, Op& forward, Tensor* logits_gradient, Tensor* minus_rate,
                  const std::vector<Tensor*>& variables) {
  Graph& network = *forward.called_graphs[0];
  const std::vector<Tensor*> required(network.inputs().begin() + 1, network.inputs().end());
  const GradGraphInfos infos = autodiff(network, std::nullopt, required);
  const GradGraphInfo& info = infos.at(&network);
  const auto index = [](const std::vector<Tensor*>& list, const Tensor* tensor) {
    return static_cast<int>(std::find(list.begin(), list.end(), tensor) - list.begin());
  };
  std::vector<Tensor*> inputs;
  for (const ExpectedConnection& connection : info.expected_inputs) {
    const int in = index(network.inputs(), connection.forward_tensor);
    const int out = index(network.outputs(), connection.forward_tensor);
    if (connection.type == ConnectionType::FwdGrad) {
      inputs.push_back(logits_gradient);
    } else if (in < static_cast<int>(network.inputs().size())) {
      inputs.push_back(forward.input(in));
    } else {
      inputs.push_back(forward.output(out));
    }
  }
  Graph& main = ir.main_graph();
  Op& backward = call(main, *info.gradient_graph, inputs);
  for (std::size_t i = 0; i < variables.size(); ++i) {
    const TensorInfo& shape = variables[i]->info;
    Tensor* m = variable(main, "first_order", {DType::Float16, shape.shape, {}});
    Tensor* v = variable(main, "second_order", shape);
    call(main, build_adam(ir, shape),
         {variables[i], backward.output(static_cast<int>(i)), m, v, minus_rate}, {0, 2, 3});
  }
}

std::vector<Tensor*> train(const DataSet& data, Ir& ir, std::mt19937& random) {
  Graph& main = ir.main_graph();
  Tensor* x = load_stream(main, "images", {DType::Float32, {kTrainBatch, kPixels}, {}});
  Tensor* labels = load_stream(main, "labels", {DType::Int32, {kTrainBatch}, {}});
  Tensor* minus_rate = load_stream(main, "minus_rate", {DType::Float32, {}, {}});
  Graph& network = build_network(ir, kTrainBatch);
  const std::vector<Tensor*> variables = make_variables(main, network, random);
  std::vector<Tensor*> inputs = {x};
  inputs.insert(inputs.end(), variables.begin(), variables.end());
  Op& forward = call(main, network, inputs);
  OpBuilder builder(main, {});
  Tensor* probabilities = ops::softmax(builder, forward.output(0), {.axis = 1});
  Op& loss =
      ops::nlll_with_softmax_grad_direct(builder, probabilities, labels, {.reduction = "mean"});
  store_stream(main, "loss", loss.output(0));
  build_update(ir, forward, loss.output(1), minus_rate, variables);

  Session session(ir);
  session.attach();
  session.weights_from_host();
  std::vector<std::int64_t> order(static_cast<std::size_t>(data.count()));
  std::iota(order.begin(), order.end(), 0);
  std::shuffle(order.begin(), order.end(), random);
  std::vector<float> images(kTrainBatch * kPixels);
  std::vector<std::int32_t> batch_labels(kTrainBatch);
  float loss_value = 0, minus_rate_value = 0;
  const auto bytes = [](auto* values) { return reinterpret_cast<std::byte*>(values); };
  const std::map<std::string, std::byte*> sources = {{"images", bytes(images.data())},
                                                     {"labels", bytes(batch_labels.data())},
                                                     {"minus_rate", bytes(&minus_rate_value)}};
  std::vector<StreamBuffer> in;
  for (const StreamDesc& stream : session.input_streams()) {
    in.push_back({sources.at(stream.id), 1});
  }
  const std::vector<StreamBuffer> out = {{reinterpret_cast<std::byte*>(&loss_value), 1}};
  const std::int64_t steps = data.count() / kTrainBatch;
  const auto start = std::chrono::steady_clock::now();
  for (std::int64_t step = 0; step < steps; ++step) {
    for (std::int64_t k = 0; k < kTrainBatch; ++k) {
      const std::int64_t item = order[static_cast<std::size_t>(step * kTrainBatch + k)];
      std::copy_n(data.images.begin() + item * kPixels, kPixels, images.begin() + k * kPixels);
      batch_labels[static_cast<std::size_t>(k)] = data.labels[static_cast<std::size_t>(item)];
    }
    minus_rate_value = -kLearningRate * (1 - static_cast<float>(step) / static_cast<float>(steps));
    session.run(in, out);
    if (step % 1000 == 999) std::printf("step %5ld  loss %.4f\n", long{step} + 1, loss_value);
  }
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  std::printf("%.0f images/s\n", static_cast<double>(steps * kTrainBatch) / seconds.count());
  session.weights_to_host();
  return variables;
}

double accuracy(const DataSet& data, const std::vector<Tensor*>& trained) {
  Ir ir;
  Graph& main = ir.main_graph();
  Tensor* x = load_stream(main, "images", {DType::Float32, {kTestBatch, kPixels}, {}});
  Graph& network = build_network(ir, kTestBatch);
  std::vector<Tensor*> inputs = {x};
  for (const Tensor* source : trained) {
    inputs.push_back(
        main.add_variable(main.unique_tensor_id(source->name()), source->info, source->data));
  }
  store_stream(main, "logits", call(main, network, inputs).output(0));
  Session session(ir);
  session.attach();
  session.weights_from_host();
  std::vector<float> logits(kTestBatch * 10);
  std::int64_t right = 0;
  for (std::int64_t first = 0; first + kTestBatch <= data.count(); first += kTestBatch) {
    auto* images = const_cast<float*>(data.images.data() + first * kPixels);
    session.run({{reinterpret_cast<std::byte*>(images), 1}},
                {{reinterpret_cast<std::byte*>(logits.data()), 1}});
    for (std::int64_t k = 0; k < kTestBatch; ++k) {
      const auto row = logits.begin() + k * 10;
      right +=
          std::max_element(row, row + 10) - row == data.labels[static_cast<std::size_t>(first + k)];
    }
  }
  return 100.0 * static_cast<double>(right) / static_cast<double>(data.count());
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const std::filesystem::path folder = argc > 1 ? argv[1] : kDefaultFolder;
    std::mt19937 random(42);
    Ir ir;
    const std::vector<Tensor*> variables = train(load(folder, "train"), ir, random);
    std::printf("accuracy on the test images: %.2f %%\n",
                accuracy(load(folder, "t10k"), variables));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "train_mnist: %s\n", error.what());
    return 1;
  }
  return 0;
}
