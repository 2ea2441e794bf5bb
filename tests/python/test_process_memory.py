"""What the process holds of the memory of the machine."""

from __future__ import annotations

from pando.process_memory import resident_bytes, return_freed_memory


def test_freed_memory_goes_back_to_the_system() -> None:
    block = 4096
    blocks = [bytearray(block) for _ in range(25_000)]
    # The C library gives back by itself what lies behind all that is used: nothing does here.
    kept = bytearray(block)
    del blocks
    before = resident_bytes()
    return_freed_memory()
    assert resident_bytes() <= before - 50_000_000, "100 MB were freed"
    assert len(kept) == block
