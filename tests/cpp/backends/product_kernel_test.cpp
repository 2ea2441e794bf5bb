// Programs as epilogues of products: the product by the kernel for products alone, then the program
// by the plain interpreter, give the same bits.
#include "pando/backends/cpu/kernels/product_kernel.hpp"

#include "pando/backends/cpu/cpu_target.hpp"
#include "pando/backends/cpu/fused/micro_op.hpp"
#include "tests/cpp/backends/fused_fixture.hpp"

namespace pando::fused_test {
namespace {

struct Product {
  std::int64_t rows, columns, depth;
  std::int64_t batch = 1;
  bool left_transposed = false, right_transposed = false;

  OperandDesc matrix(std::int64_t m, std::int64_t n, bool transposed) const {
    OperandDesc desc{DType::Float32, {m, n}, transposed ? Strides{1, m} : Strides{n, 1}};
    if (batch == 1) return desc;
    desc.shape.insert(desc.shape.begin(), batch);
    desc.strides.insert(desc.strides.begin(), m * n);
    return desc;
  }
  OperandDesc left() const { return matrix(rows, depth, left_transposed); }
  OperandDesc right() const { return matrix(depth, columns, right_transposed); }
  OperandDesc result(DType dtype = DType::Float32) const {
    return OperandDesc::contiguous(dtype, matrix(rows, columns, false).shape);
  }
  /// An input of that shape with these strides for its last two dimensions.
  OperandDesc repeated(std::int64_t row, std::int64_t column) const {
    OperandDesc desc = result();
    std::fill(desc.strides.begin(), desc.strides.end(), 0);
    desc.strides[desc.strides.size() - 2] = row;
    desc.strides.back() = column;
    return desc;
  }
};

using Body = std::function<void(ScalarEmitter&)>;

/// Input 0 is the product, made in output 0; `inputs` follow.
KernelSpec spec_of(const Product& product, const std::vector<OperandDesc>& inputs,
                   const std::vector<OperandDesc>& outputs, const Body& body) {
  KernelSpec spec;
  spec.kind = "Fused";
  spec.inputs = {product.result()};
  spec.inputs.insert(spec.inputs.end(), inputs.begin(), inputs.end());
  ProductInput made;
  made.left = static_cast<std::int32_t>(spec.inputs.size());
  made.right = made.left + 1;
  made.place = 0;
  spec.products = {made};
  spec.inputs.push_back(product.left());
  spec.inputs.push_back(product.right());
  spec.outputs = outputs;
  ScalarEmitter emitter(spec.scalar);
  body(emitter);
  return spec;
}

void run_kernel(const HostKernel& kernel, const std::vector<Operand*>& operands) {
  struct alignas(64) Line {
    std::byte bytes[64];
  };
  std::vector<Line> scratch(kernel.scratch_bytes() / 64 + 1);
  std::vector<std::byte*> pointers;
  for (Operand* operand : operands) {
    pointers.push_back(operand == nullptr ? nullptr : operand->data());
  }
  kernel.run(pointers.data(), reinterpret_cast<std::byte*>(scratch.data()));
}

/// The product alone, of the same layouts and on as many threads; with `bias` the sums begin there.
void multiply(const Product& product, int threads, Operand& left, Operand& right, Operand* bias,
              Operand& out) {
  KernelSpec spec;
  spec.kind = "MatMul";
  spec.inputs = {product.left(), product.right()};
  if (bias != nullptr) {
    spec.inputs.push_back(OperandDesc::contiguous(DType::Float32, {product.columns}));
  }
  spec.outputs = {product.result()};
  const auto kernel = make_cpu_target(threads)->prepare(spec);
  std::vector<Operand*> operands = {&left, &right};
  if (bias != nullptr) operands.push_back(bias);
  operands.push_back(&out);
  run_kernel(dynamic_cast<const HostKernel&>(*kernel), operands);
}

struct How {
  int threads = 1;
  MachineCode machine_code = MachineCode::Automatic;
  /// The input whose memory output 1 is.
  int in_place = -1;
  bool adds_row = false;  // input 1 to the product, first of all
};

std::string check_product(const Product& product, const KernelSpec& spec, const How& how) {
  Numbers numbers(static_cast<unsigned>(product.rows * 31 + product.columns), false);
  std::vector<Operand> inputs(spec.inputs.begin(), spec.inputs.end());
  std::vector<Operand> outputs(spec.outputs.begin(), spec.outputs.end()), expected = outputs;
  for (Operand& input : inputs) numbers.fill(input);
  Operand &left = inputs[inputs.size() - 2], &right = inputs.back();
  multiply(product, how.threads, left, right, how.adds_row ? &inputs[1] : nullptr, inputs[0]);
  ScalarProgram program = spec.scalar;
  if (how.adds_row) {
    // The sum has been made with the product.
    for (ScalarInstruction& in : program.instructions) {
      if (in.op == ScalarOp::Load && in.index == 1) in = {.op = ScalarOp::Constant};
    }
  }
  std::vector<Operand*> in, out;
  for (Operand& input : inputs) in.push_back(&input);
  for (Operand& output : expected) out.push_back(&output);
  testing::interpret(program, in, out);
  std::vector<Operand*> operands = in;
  operands[0] = nullptr;
  for (Operand& output : outputs) operands.push_back(&output);
  if (how.in_place >= 0) {
    operands[inputs.size() + 1] = operands[static_cast<std::size_t>(how.in_place)];
  }
  const auto kernel = cpu::make_product_kernel(spec, how.threads, how.machine_code);
  run_kernel(*kernel, operands);
  const double ulps = cpu::chain_machine().has_fma ? 0 : 1e5;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    expect_equal(*operands[inputs.size() + i], expected[i], ulps, kernel->explain() + "\n");
  }
  return kernel->explain();
}

const std::vector<Product> kProducts = {{8, 70, 333},
                                        {8, 64, 333},
                                        {5, 33, 70, 1, false, true},
                                        {1, 512, 40},
                                        {70, 90, 340},
                                        {300, 33, 120},
                                        {33, 640, 650, 1, true, true},
                                        {40, 2, 9},
                                        {64, 48, 70, 3},
                                        {9, 30, 33, 2, false, true},
                                        {7, 5, 0}};

class ProductKernel : public testing::SimdTargetTest {
 protected:
  /// On one thread and on three, by micro-ops and by machine code.
  static void check_all(const Product& product, const KernelSpec& spec, How how) {
    SCOPED_TRACE(str_cat(product.batch, " x ", product.rows, " x ", product.columns, " over ",
                         product.depth));
    for (const int threads : {1, 3}) {
      for (const MachineCode machine_code :
           {MachineCode::Never, MachineCode::Always, MachineCode::Always256}) {
        how.threads = threads;
        how.machine_code = machine_code;
        check_product(product, spec, how);
      }
    }
  }
};

TEST_P(ProductKernel, ReadsRowsColumnsAndMatrices) {
  for (const Product& product : kProducts) {
    const KernelSpec spec = spec_of(
        product,
        {product.repeated(0, 1), product.repeated(1, 0), product.result(), product.repeated(0, 0),
         product.result(DType::Float16)},
        {product.result(), product.result(DType::Float16), product.result(DType::Bool)},
        [](ScalarEmitter& e) {
          const auto load = [&](int i) { return e.load(i, DType::Float32); };
          const ScalarValue scaled = e.emit(ScalarOp::Mul, load(0), load(1));
          const ScalarValue sum = e.emit(ScalarOp::Add, e.emit(ScalarOp::Sub, scaled, load(2)),
                                         e.emit(ScalarOp::Mul, load(3), load(4)));
          const ScalarValue half = e.load(5, DType::Float16);
          e.store(0, e.emit(ScalarOp::Max, sum, e.constant(0.0)), DType::Float32);
          e.store(1, e.emit(ScalarOp::Mul, sum, half), DType::Float16);
          e.store(2, e.emit(ScalarOp::Less, sum, half), DType::Bool);
        });
    check_all(product, spec, {});
  }
}

TEST_P(ProductKernel, BeginsWithARowAndWritesOverInputs) {
  for (const Product& product : kProducts) {
    // The sum itself is a result; the other one is written over the matrix that it reads.
    const KernelSpec spec = spec_of(
        product, {product.repeated(0, 1), product.result()}, {product.result(), product.result()},
        [](ScalarEmitter& e) {
          const ScalarValue sum =
              e.emit(ScalarOp::Add, e.load(1, DType::Float32), e.load(0, DType::Float32));
          e.store(0, sum, DType::Float32);
          const ScalarValue residual = e.load(2, DType::Float32);
          e.store(1, e.emit(ScalarOp::Add, residual, e.emit(ScalarOp::Max, sum, e.constant(0.0))),
                  DType::Float32);
        });
    check_all(product, spec, {.in_place = 2, .adds_row = true});
  }
}

TEST_P(ProductKernel, ReadsTheProductAfterWritingOverIt) {
  const Product product{12, 130, 40};
  const KernelSpec spec =
      spec_of(product, {}, {product.result(), product.result()}, [](ScalarEmitter& e) {
        const ScalarValue x = e.load(0, DType::Float32);
        e.store(0, e.emit(ScalarOp::Neg, x), DType::Float32);
        e.store(1, e.emit(ScalarOp::Mul, x, x), DType::Float32);
      });
  check_all(product, spec, {});
}

TEST_P(ProductKernel, NumbersElements) {
  for (const Product& product : {Product{8, 70, 33}, Product{40, 64, 80, 2}}) {
    const KernelSpec spec = spec_of(product, {}, {product.result()}, [](ScalarEmitter& e) {
      const ScalarValue number = e.convert(e.iota(), LaneType::F32);
      e.store(0, e.emit(ScalarOp::Sub, e.load(0, DType::Float32), number), DType::Float32);
    });
    check_all(product, spec, {});
  }
}

INSTANTIATE_TEST_SUITE_P(Targets, ProductKernel, testing::kSimdTargets, testing::target_name);

TEST(ProductKernelChoice, RunsOnPartsOfEveryKernelForProducts) {
  const auto explain = [](const Product& product) {
    const KernelSpec spec =
        spec_of(product, {product.repeated(0, 1)}, {product.result()}, [](ScalarEmitter& e) {
          const ScalarValue sum =
              e.emit(ScalarOp::Add, e.load(0, DType::Float32), e.load(1, DType::Float32));
          e.store(0, e.emit(ScalarOp::Floor, sum), DType::Float32);
        });
    return check_product(product, spec, {.adds_row = true});
  };
  EXPECT_NE(explain({8, 64, 128}).find("MatMul: skinny"), std::string::npos);
  EXPECT_NE(explain({4, 8, 0}).find("MatMul: plain"), std::string::npos);
  EXPECT_NE(explain({200, 200, 200}).find("on parts of it Fused"), std::string::npos);
}

TEST(ProductKernelChoice, TheTargetSaysHowProductsAreUsed) {
  const auto use = [](const Product& product, const Attributes& attributes = {},
                      const Shape& seen_as = {}) {
    KernelSpec spec;
    spec.kind = "MatMul";
    spec.attributes = attributes;
    spec.inputs = {product.left(), product.right()};
    spec.outputs = {product.result()};
    KernelSpec fused;
    fused.kind = "Fused";
    fused.inputs = {seen_as.empty() ? product.result()
                                    : OperandDesc::contiguous(DType::Float32, seen_as)};
    fused.outputs = fused.inputs;
    return make_cpu_target(1)->computes_inside(fused, 0, spec);
  };
  EXPECT_EQ(use({784, 512, 8}), ProductUse::InPieces);
  EXPECT_EQ(use({784, 512, 8}, {}, {392, 2, 512}), ProductUse::InOutput);
  EXPECT_EQ(use({784, 512, 17}), ProductUse::InOutput);
  EXPECT_EQ(use({784, 512, 8, 2}), ProductUse::InOutput);
  EXPECT_EQ(use({784, 1, 100}), ProductUse::None);
  EXPECT_EQ(use({784, 512, 100}, {{"out_band", Ints{4, 0}}}), ProductUse::None);
}

}  // namespace
}  // namespace pando::fused_test
