#include <algorithm>
#include <array>
#include <vector>

#include "pando/backends/cpu/kernels/conv.hpp"
#include "pando/backends/cpu/kernels/winograd_rows.hpp"
#include "pando/backends/cpu/onednn/conv_primitive.hpp"
#include "pando/backends/cpu/onednn/onednn.hpp"
#include "pando/backends/cpu/parallel.hpp"
#include "pando/base/error.hpp"

namespace pando::cpu {
namespace {

using dnnl::memory;

/// Tiles that one thread transforms, multiplies and transforms back at a time: so many rows fill a
/// matrix product, and what belongs to them stays in the caches.
constexpr std::int64_t kBlockTiles = 64;
/// Elements between products of a block beyond what they take, lest all fall into one cache set.
constexpr std::int64_t kGap = 48;
/// With fewer channels the transforms take longer than what they save.
constexpr std::int64_t kLeastChannels = 32;
/// Filters are transformed as well, if they are not prepared, and their products read for each
/// block.
constexpr std::int64_t kLeastTilesOfThread = 64, kLeastTilesOfPreparedFilters = 24;
/// Threads have no sums of products of so many filters each.
constexpr std::int64_t kManyFilters = std::int64_t{1} << 16;

std::int64_t divide_up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

/// Images with channels last: as the tiles or the pixels of a problem.
struct Images {
  std::int64_t rows = 0, columns = 0, channels = 0;

  explicit Images(const Shape& shape) : rows(shape[2]), columns(shape[3]), channels(shape[1]) {}
  bool has(std::int64_t row, std::int64_t column) const {
    return row >= 0 && row < rows && column >= 0 && column < columns;
  }
  std::int64_t element(std::int64_t sample, std::int64_t row, std::int64_t column) const {
    return ((sample * rows + row) * columns + column) * channels;
  }
};

/// Tiles cover the images from whose pixels sums are made (`read`): each belongs to 2x2 pixels of
/// the others.
struct TileGrid {
  Images read, written;
  std::int64_t pad_row, pad_column;
  std::int64_t tile_rows, tile_columns, count;

  TileGrid(const Shape& from, const Shape& to, std::int64_t rows, std::int64_t columns)
      : read(from),
        written(to),
        pad_row(rows),
        pad_column(columns),
        tile_rows((written.rows + 1) / 2),
        tile_columns((written.columns + 1) / 2),
        count(from[0] * tile_rows * tile_columns) {}

  /// Calls use(i, element) for each pixel of a tile, -1 for those outside.
  template <class Use>
  void for_tile(std::int64_t tile, const Use& use) const {
    const auto [sample, row, column] = position(tile);
    for (int i = 0; i < kWinogradTile; ++i) {
      const std::int64_t y = 2 * row - pad_row + i / 4, x = 2 * column - pad_column + i % 4;
      use(i, read.has(y, x) ? read.element(sample, y, x) : -1);
    }
  }
  /// The same for the pixels that it belongs to.
  template <class Use>
  void for_pixels(std::int64_t tile, const Use& use) const {
    const auto [sample, row, column] = position(tile);
    for (int i = 0; i < kWinogradPixels; ++i) {
      const std::int64_t y = 2 * row + i / 2, x = 2 * column + i % 2;
      use(i, written.has(y, x) ? written.element(sample, y, x) : -1);
    }
  }
  std::array<std::int64_t, 3> position(std::int64_t tile) const {
    return {tile / (tile_rows * tile_columns), tile / tile_columns % tile_rows,
            tile % tile_columns};
  }
};

memory::desc matrices(std::int64_t count, std::int64_t rows, std::int64_t columns,
                      const Strides& strides) {
  return onednn_f32({count, rows, columns}, strides);
}

/// How a convolution is computed, and the memory that it takes. Each thread computes blocks of
/// tiles in memory of its own, or all together the same block.
struct WinogradPlan {
  TileGrid grid;
  std::int64_t filters;       // pairs of channels
  std::int64_t block;         // tiles
  std::int64_t tile_stride;   // between products of a block of tiles
  std::int64_t pixel_stride;  // between products of a block of pixels
  int num_threads;
  int num_slots;  // of memory: one for each thread, or for all together
  bool rotates;
  std::vector<float> zeros;  // a pixel outside

  std::unique_ptr<OnednnPrimitive> product;
  std::size_t scratchpad_bytes = 0;
  // In scratch memory; slots begin at `slots_at`.
  std::size_t slots_at = 0, slot_bytes = 0;
  std::size_t pixels_at = 0, unwanted_at = 0, scratchpad_at = 0, sums_at = 0;  // in a slot

  WinogradPlan(const TileGrid& tiles, std::int64_t filter_count, int threads, int slots,
               bool rotated)
      : grid(tiles),
        filters(filter_count),
        num_threads(threads),
        num_slots(slots),
        rotates(rotated) {
    const std::int64_t turns = divide_up(grid.count, threads * kBlockTiles);
    block = divide_up(grid.count, slots * turns);
    tile_stride = block * grid.read.channels + kGap;
    pixel_stride = block * grid.written.channels + kGap;
    zeros.resize(static_cast<std::size_t>(std::max(grid.read.channels, grid.written.channels)));
  }

  void set_product(const memory::desc& left, const memory::desc& right, const memory::desc& result,
                   bool adds) {
    const SingleThreaded single;
    dnnl::primitive_attr attributes;
    attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    dnnl::post_ops after;
    if (adds) after.append_sum();
    attributes.set_post_ops(after);
    const dnnl::matmul::primitive_desc desc(onednn_engine(), left, right, result, attributes);
    scratchpad_bytes = desc.scratchpad_desc().get_size();
    product = std::make_unique<OnednnPrimitive>(
        dnnl::matmul(desc),
        std::vector<OnednnPrimitive::Argument>{{DNNL_ARG_SRC, left},
                                               {DNNL_ARG_WEIGHTS, right},
                                               {DNNL_ARG_DST, result},
                                               {DNNL_ARG_SCRATCHPAD, desc.scratchpad_desc()}});
  }

  /// `shared`: what all threads have together. Returns the size of the scratch memory.
  std::size_t place(std::size_t shared, bool sums) {
    const auto take = [&](std::int64_t floats) {
      const std::size_t at = slot_bytes;
      slot_bytes += scratch_aligned(static_cast<std::size_t>(floats) * sizeof(float));
      return at;
    };
    slots_at = scratch_aligned(shared);
    take(kWinogradTile * tile_stride);
    pixels_at = take(kWinogradTile * pixel_stride);
    unwanted_at = take(grid.written.channels);
    scratchpad_at = slot_bytes;
    slot_bytes +=
        static_cast<std::size_t>(num_threads / num_slots) * scratch_aligned(scratchpad_bytes);
    if (sums) sums_at = take(kWinogradTile * filters);
    return slots_at + static_cast<std::size_t>(num_slots) * slot_bytes;
  }

  std::byte* slot(std::byte* scratch, std::int64_t index) const {
    return scratch + slots_at + static_cast<std::size_t>(index) * slot_bytes;
  }

  /// Calls body(part, first, count) for blocks of tiles; those of one part on one thread.
  template <class Body>
  void for_blocks(const Body& body) const {
    const std::int64_t blocks = divide_up(grid.count, block);
    parallel_for(num_threads, num_threads, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t part = begin; part < end; ++part) {
        const std::int64_t last = blocks * (part + 1) / num_threads;
        for (std::int64_t i = blocks * part / num_threads; i < last; ++i) {
          body(part, i * block, std::min(block, grid.count - i * block));
        }
      }
    });
  }

  void transform_tiles(const float* images, std::int64_t first, std::int64_t count,
                       float* to) const {
    std::array<const float*, kWinogradTile> tile{};
    for (std::int64_t t = 0; t < count; ++t) {
      grid.for_tile(first + t, [&](int i, std::int64_t element) {
        tile[static_cast<std::size_t>(i)] = element < 0 ? zeros.data() : images + element;
      });
      winograd_tile_f32(tile.data(), grid.read.channels, to + t * grid.read.channels, tile_stride);
    }
  }
};

float* floats_at(std::byte* memory, std::size_t offset = 0) {
  return reinterpret_cast<float*>(memory + offset);
}

/// The filters of images, to matrices of (channels read) x (channels written), one for each
/// product.
struct FilterTransform {
  std::int64_t read, written;
  bool rotates;
  int num_threads;

  std::int64_t floats() const { return kWinogradTile * read * written; }

  void run(const float* weights, float* to) const {
    const FilterOrder order{(rotates ? 1 : read) * kWinogradTaps, rotates};
    const std::int64_t filters = read * written, groups = filters / kWinogradChannels;
    parallel_for(num_threads, groups, 64, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        const std::int64_t from = i % read, first = i / read * kWinogradChannels;
        const std::int64_t filter = rotates ? from * written + first : first * read + from;
        winograd_filters_f32(weights + filter * kWinogradTaps, kWinogradChannels, order,
                             to + from * written + first, filters);
      }
    });
  }
};

/// Images from images and filters: a result, or the gradient of the data.
struct WinogradImages : WinogradPlan {
  using WinogradPlan::WinogradPlan;
  bool has_prepared_filters = false;

  FilterTransform filter_transform() const {
    return {grid.read.channels, grid.written.channels, rotates, num_threads};
  }

  void run(const float* images, const float* weights, float* result, std::byte* scratch) const {
    if (has_prepared_filters) return multiply(images, weights, result, scratch);
    filter_transform().run(weights, floats_at(scratch));
    multiply(images, floats_at(scratch), result, scratch);
  }

  /// `transformed`: the filters.
  void multiply(const float* images, const float* transformed, float* result,
                std::byte* scratch) const {
    for_blocks([&](std::int64_t part, std::int64_t first, std::int64_t count) {
      std::byte* const own = slot(scratch, part);
      transform_tiles(images, first, count, floats_at(own));
      void* const operands[] = {own, const_cast<float*>(transformed), own + pixels_at,
                                own + scratchpad_at};
      product->run(operands);
      write_pixels(first, count, own, result);
    });
  }

  void write_pixels(std::int64_t first, std::int64_t count, std::byte* own, float* result) const {
    std::array<float*, kWinogradPixels> pixels{};
    for (std::int64_t t = 0; t < count; ++t) {
      grid.for_pixels(first + t, [&](int i, std::int64_t element) {
        pixels[static_cast<std::size_t>(i)] =
            element < 0 ? floats_at(own, unwanted_at) : result + element;
      });
      winograd_pixels_f32(floats_at(own, pixels_at) + t * grid.written.channels, pixel_stride,
                          grid.written.channels, pixels.data());
    }
  }
};

/// The gradient of filters from the data and the gradient of the result.
struct WinogradWeights : WinogradPlan {
  using WinogradPlan::WinogradPlan;

  void run(const float* images, const float* grad, float* weights, std::byte* scratch) const {
    if (num_slots < num_threads) {
      add_products_apart(images, grad, scratch);
    } else {
      add_tiles_apart(images, grad, scratch);
    }
    parallel_for(num_threads, filters / kWinogradChannels, 64,
                 [&](std::int64_t begin, std::int64_t end) {
                   const std::int64_t first = begin * kWinogradChannels;
                   finish(first, (end - begin) * kWinogradChannels, weights, scratch);
                 });
  }

  /// Each thread adds up all products of its tiles.
  void add_tiles_apart(const float* images, const float* grad, std::byte* scratch) const {
    for (std::int64_t part = 0; part < num_slots; ++part) {
      std::fill_n(floats_at(slot(scratch, part), sums_at), kWinogradTile * filters, 0.0F);
    }
    for_blocks([&](std::int64_t part, std::int64_t first, std::int64_t count) {
      std::byte* const own = slot(scratch, part);
      transform_tiles(images, first, count, floats_at(own));
      read_pixels(grad, first, count, floats_at(own, pixels_at));
      clear_rest(count, own);
      multiply(own, 0, own + scratchpad_at);
    });
  }

  /// Each thread adds up some of the products, of all tiles: many filters take memory once.
  void add_products_apart(const float* images, const float* grad, std::byte* scratch) const {
    std::byte* const own = slot(scratch, 0);
    float* const sums = floats_at(own, sums_at);
    parallel_for(num_threads, kWinogradTile, 1, [&](std::int64_t begin, std::int64_t end) {
      std::fill_n(sums + begin * filters, (end - begin) * filters, 0.0F);
    });
    for (std::int64_t first = 0; first < grid.count; first += block) {
      const std::int64_t count = std::min(block, grid.count - first);
      parallel_for(num_threads, count, 1, [&](std::int64_t begin, std::int64_t end) {
        transform_tiles(images, first + begin, end - begin,
                        floats_at(own) + begin * grid.read.channels);
        read_pixels(grad, first + begin, end - begin,
                    floats_at(own, pixels_at) + begin * grid.written.channels);
      });
      clear_rest(count, own);
      parallel_for(num_threads, num_threads, 1, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t part = begin; part < end; ++part) {
          const std::size_t pad =
              static_cast<std::size_t>(part) * scratch_aligned(scratchpad_bytes);
          const std::int64_t last = kWinogradTile * (part + 1) / num_threads;
          for (std::int64_t i = kWinogradTile * part / num_threads; i < last; ++i) {
            multiply(own, i, own + scratchpad_at + pad);
          }
        }
      });
    }
  }

  /// Adds to the sums of product `index`, or to all where the primitive is of all.
  void multiply(std::byte* own, std::int64_t index, std::byte* scratchpad) const {
    void* const operands[] = {floats_at(own, pixels_at) + index * pixel_stride,
                              floats_at(own) + index * tile_stride,
                              floats_at(own, sums_at) + index * filters, scratchpad};
    product->run(operands);
  }

  void read_pixels(const float* grad, std::int64_t first, std::int64_t count, float* to) const {
    std::array<const float*, kWinogradPixels> pixels{};
    for (std::int64_t t = 0; t < count; ++t) {
      grid.for_pixels(first + t, [&](int i, std::int64_t element) {
        pixels[static_cast<std::size_t>(i)] = element < 0 ? zeros.data() : grad + element;
      });
      winograd_pixels_grad_f32(pixels.data(), grid.written.channels, to + t * grid.written.channels,
                               pixel_stride);
    }
  }

  /// Rows of the last block that no tile has add nothing.
  void clear_rest(std::int64_t count, std::byte* own) const {
    const std::int64_t rest = block - count;
    for (int i = 0; i < kWinogradTile && rest > 0; ++i) {
      const std::int64_t read = grid.read.channels, written = grid.written.channels;
      std::fill_n(floats_at(own) + i * tile_stride + count * read, rest * read, 0.0F);
      std::fill_n(floats_at(own, pixels_at) + i * pixel_stride + count * written, rest * written,
                  0.0F);
    }
  }

  /// The sums of all threads are those of the first, brought back.
  void finish(std::int64_t first, std::int64_t count, float* weights, std::byte* scratch) const {
    float* const total = floats_at(slot(scratch, 0), sums_at) + first;
    for (std::int64_t part = 1; part < num_slots; ++part) {
      const float* const sums = floats_at(slot(scratch, part), sums_at) + first;
      for (int i = 0; i < kWinogradTile; ++i) {
        for (std::int64_t k = 0; k < count; ++k) total[i * filters + k] += sums[i * filters + k];
      }
    }
    winograd_filters_grad_f32(total, filters, count, weights + first * kWinogradTaps);
  }
};

TileGrid grid_of(ConvPass pass, const ConvProblem& p) {
  if (pass == ConvPass::Data) return {p.result, p.data, 2 - p.pads[0], 2 - p.pads[1]};
  return {p.data, p.result, p.pads[0], p.pads[1]};
}

/// Why the problem is none for it, or takes longer than with all products.
std::string winograd_fault(ConvPass pass, const ConvProblem& p, int num_threads) {
  const std::int64_t channels = p.data[1], maps = p.weights[0];
  if (channels % kWinogradChannels != 0 || maps % kWinogradChannels != 0) {
    return str_cat("channels that are no multiples of ", kWinogradChannels);
  }
  if (std::min(channels, maps) < kLeastChannels) return "few channels";
  const TileGrid grid = grid_of(pass, p);
  const std::int64_t least =
      p.has_prepared_filters ? kLeastTilesOfPreparedFilters : kLeastTilesOfThread;
  if (grid.count < num_threads * least) return "few tiles";
  return "";
}

template <class Winograd>
KernelPlan finished(std::shared_ptr<Winograd> winograd, std::size_t scratch_bytes) {
  KernelPlan plan;
  plan.detail = str_cat(winograd->grid.count, " tiles of 4x4");
  plan.scratch_bytes = scratch_bytes;
  plan.run = [w = std::shared_ptr<const Winograd>(std::move(winograd))](std::byte* const* operands,
                                                                        std::byte* scratch) {
    const std::size_t images = w->rotates ? 1 : 0;
    w->run(reinterpret_cast<const float*>(operands[images]),
           reinterpret_cast<const float*>(operands[1 - images]),
           reinterpret_cast<float*>(operands[2]), scratch);
  };
  return plan;
}

template <ConvPass Pass>
KernelPlan plan_winograd(const ConvProblem& p, int num_threads) {
  constexpr bool kIsData = Pass == ConvPass::Data;
  const std::int64_t channels = p.data[1], maps = p.weights[0], filters = channels * maps;
  const TileGrid grid = grid_of(Pass, p);
  if constexpr (Pass == ConvPass::Weights) {
    const bool takes_turns = num_threads > 1 && filters >= kManyFilters;
    const std::int64_t count = takes_turns ? 1 : kWinogradTile;
    auto w = std::make_shared<WinogradWeights>(grid, filters, num_threads,
                                               takes_turns ? 1 : num_threads, false);
    w->set_product(matrices(count, maps, w->block, {w->pixel_stride, 1, maps}),
                   matrices(count, w->block, channels, {w->tile_stride, channels, 1}),
                   matrices(count, maps, channels, {filters, channels, 1}), true);
    const std::size_t bytes = w->place(0, true);
    return finished(std::move(w), bytes);
  } else {
    auto w = std::make_shared<WinogradImages>(grid, filters, num_threads, num_threads, kIsData);
    const std::int64_t from = kIsData ? maps : channels, to = kIsData ? channels : maps;
    w->set_product(matrices(kWinogradTile, w->block, from, {w->tile_stride, from, 1}),
                   matrices(kWinogradTile, from, to, {filters, to, 1}),
                   matrices(kWinogradTile, w->block, to, {w->pixel_stride, to, 1}), false);
    w->has_prepared_filters = p.has_prepared_filters;
    const std::int64_t shared = p.has_prepared_filters ? 0 : w->filter_transform().floats();
    const std::size_t bytes = w->place(static_cast<std::size_t>(shared) * sizeof(float), false);
    return finished(std::move(w), bytes);
  }
}

}  // namespace

template <ConvPass Pass>
bool is_for_winograd(const KernelRequest& request) {
  ConvProblem p;
  return parse_conv(request, Pass, p).empty() && p.dtype == DType::Float32 && p.channel_last &&
         !p.has_prepared_weights && p.groups == 1 && p.strides == Ints{1, 1} &&
         p.dilations == Ints{1, 1} && p.weights[2] == 3 && p.weights[3] == 3;
}

template <ConvPass Pass>
KernelPlan make_winograd_conv(const KernelRequest& request) {
  ConvProblem problem;
  parse_conv(request, Pass, problem);
  const std::string fault = winograd_fault(Pass, problem, request.num_threads);
  if (!fault.empty()) return KernelPlan::reject(fault);
  try {
    return plan_winograd<Pass>(problem, request.num_threads);
  } catch (const dnnl::error& error) {
    return KernelPlan::reject(str_cat("oneDNN: ", error.what()));
  }
}

template <ConvPass Pass>
std::optional<PreparedInput> prepared_winograd_filters(const KernelRequest& request) {
  constexpr std::size_t kWeights = conv_weights_operand(Pass);
  ConvProblem p;
  if (!is_for_winograd<Pass>(request)) return std::nullopt;
  parse_conv(request, Pass, p);
  if (p.has_prepared_filters) return std::nullopt;
  const KernelSpec& spec = request.spec;
  const Shape floats = {kWinogradTile * p.weights[0] * p.weights[1]};
  const OperandDesc made = OperandDesc::contiguous(DType::Float32, floats);
  PreparedInput prepared{static_cast<std::int32_t>(kWeights), {}, spec};
  prepared.maker.kind = spec.kind + "PreparedFilters";
  prepared.maker.inputs = {spec.inputs[kWeights]};
  prepared.maker.outputs = {made};
  prepared.user.inputs[kWeights] = made;
  prepared.user.attributes.set("prepared_filters", Ints(p.weights));
  const KernelRequest user{prepared.user, request.num_threads};
  if (!make_winograd_conv<Pass>(user).rejection.empty()) return std::nullopt;
  return prepared;
}

template <ConvPass Pass>
KernelPlan make_prepared_filters(const KernelRequest& request) {
  constexpr bool kIsData = Pass == ConvPass::Data;
  const Shape& weights = request.input(0).shape;
  const FilterTransform transform{weights[kIsData ? 0 : 1], weights[kIsData ? 1 : 0], kIsData,
                                  request.num_threads};
  KernelPlan plan;
  plan.run = [transform](std::byte* const* operands, std::byte*) {
    transform.run(floats_at(operands[0]), floats_at(operands[1]));
  };
  return plan;
}

template bool is_for_winograd<ConvPass::Forward>(const KernelRequest& request);
template bool is_for_winograd<ConvPass::Data>(const KernelRequest& request);
template bool is_for_winograd<ConvPass::Weights>(const KernelRequest& request);
template KernelPlan make_winograd_conv<ConvPass::Forward>(const KernelRequest& request);
template KernelPlan make_winograd_conv<ConvPass::Data>(const KernelRequest& request);
template KernelPlan make_winograd_conv<ConvPass::Weights>(const KernelRequest& request);
template std::optional<PreparedInput> prepared_winograd_filters<ConvPass::Forward>(
    const KernelRequest& request);
template std::optional<PreparedInput> prepared_winograd_filters<ConvPass::Data>(
    const KernelRequest& request);
template KernelPlan make_prepared_filters<ConvPass::Forward>(const KernelRequest& request);
template KernelPlan make_prepared_filters<ConvPass::Data>(const KernelRequest& request);

}  // namespace pando::cpu
