// Numbers of the float32 exponential of what is not positive, shared by its two forms: vectors
// (exp-inl.h) and machine code (fused/chain_functions.cpp).
//
// x = n ln 2 + r with |r| <= ln(2) / 2, ln 2 in two parts; the polynomial of e^r is that of Cephes'
// expf (Moshier, 1987).
#pragma once

namespace pando::cpu::exp_constants {

/// From here on n is -127, whose power of two has the bits of zero.
constexpr float kLowest = -88.0f;
/// Added to n, it leaves the biased exponent n + 127 in the low bits.
constexpr float kShift = 12582912.0f + 127.0f;
constexpr float kLog2E = 1.44269504f;
constexpr float kMinusLn2High = -0.693359375f;
constexpr float kMinusLn2Low = 2.12194440e-4f;
/// e^r = 1 + r + r^2 P(r), from the highest power of P on.
constexpr float kPolynomial[] = {1.9875691500e-4f, 1.3981999507e-3f, 8.3334519073e-3f,
                                 4.1665795894e-2f, 1.6666665459e-1f, 5.0000001201e-1f};
constexpr int kMantissaBits = 23;

}  // namespace pando::cpu::exp_constants
