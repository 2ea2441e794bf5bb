"""How a session whose state is in files shares the memory of its process out."""

from __future__ import annotations

from dataclasses import dataclass

from pando.process_memory import claimed_bytes

# Beside device memory and stores under way: buffers of the I/O threads, scratch of library
# kernels, what the host program allocates.
SPARE_BYTES = 192 << 20
_LEAST_STAGING = 8 << 20
_PHASES_AHEAD = 4


@dataclass(frozen=True)
class MemoryBudget:
    """What a session may use of the memory of the process.

    Attributes:
        process_bytes: The process without what follows.
        device_bytes: Device memory of one replica; 0 means no limit.
        staging_bytes: Stores of one replica that are under way.
        prefetch_bytes: Loads of one replica that come early, within device memory.
    """

    process_bytes: int
    device_bytes: int
    staging_bytes: int
    prefetch_bytes: int

    @classmethod
    def of(cls, phase_bytes: int, memory_bytes: int, replicas: int = 1) -> MemoryBudget:
        """Shares the memory of the process out.

        There is room for the weights and state of some phases to come while one computes, so that
        a disk may be slow for some seconds, and for those of two to go: one's are all stored at
        once, when the last one's may still be on their way. There is less where a session would not
        fit.

        Args:
            phase_bytes: Weights and state of a phase.
            memory_bytes: The memory of the whole process; 0 means no limit.
            replicas: The replicas that share it.

        Returns:
            The shares.

        Raises:
            ValueError: The process alone is larger.
        """
        one_phase = phase_bytes + _LEAST_STAGING
        going, coming = 2 * one_phase, _PHASES_AHEAD * one_phase
        process = claimed_bytes() + SPARE_BYTES
        if memory_bytes == 0:
            return cls(process, 0, going, coming)
        left = (memory_bytes - process) // replicas
        if left <= 0:
            raise ValueError(
                f"the program alone takes {process} bytes; the limit is {memory_bytes}: give more "
                "memory"
            )
        staging = min(going, max(left // 4, _LEAST_STAGING))
        device = max(_rounded(left - staging, memory_bytes), 1)
        return cls(process, device, staging, min(coming, _rounded(left // 2, memory_bytes)))


def _rounded(share: int, memory_bytes: int) -> int:
    """A share, down to whole 64ths of the memory, if it has as much.

    A stored program is for one size, and the sizes of processes differ by some pages.
    """
    step = max(memory_bytes // 64, 1)
    return share // step * step if share >= step else share
