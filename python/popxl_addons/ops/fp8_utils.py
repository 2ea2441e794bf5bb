"""What defines a floating-point format."""

from __future__ import annotations

from typing import NamedTuple

__all__ = [
    "FpDef",
    "float8_143_def",
    "float8_152_def",
    "ieee_fp16_denorms",
    "ieee_fp32_no_denorms",
]


class FpDef(NamedTuple):
    """What defines a floating-point format.

    Attributes:
        num_exp_bits: Bits of the exponent.
        num_mantissa_bits: Bits of the mantissa.
        fix_exponent_bias: What is subtracted from the stored exponent.
        include_denorm: Whether there are denormal numbers.
        has_nans: Whether there are NaN and infinity.
        max_value: The largest number.
        max_exp: The exponent of the largest number.
        min_exp: The exponent of the smallest number.
    """

    num_exp_bits: int
    num_mantissa_bits: int
    fix_exponent_bias: int
    include_denorm: bool
    has_nans: bool
    max_value: float
    max_exp: int
    min_exp: int


ieee_fp32_no_denorms = FpDef(8, 23, 127, False, True, 3.4028235e38, 127, -126)
ieee_fp16_denorms = FpDef(5, 10, 15, True, True, 65504, 15, -14)
float8_152_def = FpDef(5, 2, 16, True, False, 57344, 15, -17)
float8_143_def = FpDef(4, 3, 8, True, False, 240, 7, -10)
