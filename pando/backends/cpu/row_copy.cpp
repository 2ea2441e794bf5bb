#include "pando/backends/cpu/row_copy.hpp"

#include <cstring>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "pando/backends/cpu/row_copy.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace pando::cpu {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using D = hn::ScalableTag<std::uint8_t>;

/// One vector or more.
struct Vectors {
  HWY_INLINE void operator()(const std::uint8_t* from, std::uint8_t* to, std::size_t bytes) const {
    const D d;
    const std::size_t lanes = hn::Lanes(d);
    std::size_t i = 0;
    for (; i + 4 * lanes <= bytes; i += 4 * lanes) {
      const auto a = hn::LoadU(d, from + i), b = hn::LoadU(d, from + i + lanes);
      const auto c = hn::LoadU(d, from + i + 2 * lanes), e = hn::LoadU(d, from + i + 3 * lanes);
      hn::StoreU(a, d, to + i);
      hn::StoreU(b, d, to + i + lanes);
      hn::StoreU(c, d, to + i + 2 * lanes);
      hn::StoreU(e, d, to + i + 3 * lanes);
    }
    for (; i + lanes <= bytes; i += lanes) hn::StoreU(hn::LoadU(d, from + i), d, to + i);
    if (i < bytes) hn::StoreU(hn::LoadU(d, from + bytes - lanes), d, to + bytes - lanes);
  }
};

/// kPiece to 2 * kPiece bytes, as two pieces that may overlap.
template <std::size_t kPiece>
struct TwoPieces {
  HWY_INLINE void operator()(const std::uint8_t* from, std::uint8_t* to, std::size_t bytes) const {
    const std::size_t last = bytes - kPiece;
    std::uint8_t pieces[2 * kPiece];
    std::memcpy(pieces, from, kPiece);
    std::memcpy(pieces + kPiece, from + last, kPiece);
    std::memcpy(to, pieces, kPiece);
    std::memcpy(to + last, pieces + kPiece, kPiece);
  }
};

template <class CopyRow>
void EachRow(const SourceRows& from, const TargetRows& to, std::size_t bytes, std::int64_t rows,
             const CopyRow& copy_row) {
  const auto* in = reinterpret_cast<const std::uint8_t*>(from.first);
  auto* out = reinterpret_cast<std::uint8_t*>(to.first);
  for (std::int64_t r = 0; r < rows; ++r, in += from.step, out += to.step) {
    copy_row(in, out, bytes);
  }
}

void CopyRows(const SourceRows& from, const TargetRows& to, std::size_t bytes, std::int64_t rows) {
  if (bytes >= hn::Lanes(D())) {
    EachRow(from, to, bytes, rows, Vectors());
  } else if (bytes >= 32) {
    EachRow(from, to, bytes, rows, TwoPieces<32>());
  } else if (bytes >= 16) {
    EachRow(from, to, bytes, rows, TwoPieces<16>());
  } else if (bytes >= 8) {
    EachRow(from, to, bytes, rows, TwoPieces<8>());
  } else if (bytes >= 4) {
    EachRow(from, to, bytes, rows, TwoPieces<4>());
  } else if (bytes >= 2) {
    EachRow(from, to, bytes, rows, TwoPieces<2>());
  } else if (bytes == 1) {
    EachRow(from, to, bytes, rows, TwoPieces<1>());
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace pando::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace pando::cpu {

HWY_EXPORT(CopyRows);

void copy_rows(const SourceRows& from, const TargetRows& to, std::int64_t row_bytes,
               std::int64_t rows) {
  // memcpy chooses its way by the sizes of caches, which pays for long rows.
  constexpr std::int64_t kShort = 1 << 11;
  if (row_bytes <= kShort) {
    HWY_DYNAMIC_DISPATCH(CopyRows)(from, to, static_cast<std::size_t>(row_bytes), rows);
    return;
  }
  for (std::int64_t r = 0; r < rows; ++r) {
    std::memcpy(to.first + r * to.step, from.first + r * from.step,
                static_cast<std::size_t>(row_bytes));
  }
}

}  // namespace pando::cpu
#endif  // HWY_ONCE
