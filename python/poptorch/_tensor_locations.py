"""Where tensors are kept: `Options.TensorLocations`. Accepted; it changes nothing here."""

from __future__ import annotations

from typing import Any

from poptorch._option_values import OptionValues, check_bool
from poptorch._options_popart import _PopartOptions


class TensorLocationSettings(OptionValues):
    """Where a kind of tensors is kept; accepted without effect."""

    def __init__(self) -> None:
        super().__init__(
            {
                "min_elements_for_off_chip": None,
                "min_elements_for_replicated_tensor_sharding": None,
                "use_on_chip_storage": None,
                "use_replicated_tensor_sharding": False,
                "use_io_tiles_to_load": False,
                "use_io_tiles_to_store": False,
            }
        )

    def minElementsForOffChip(self, min_elements: int) -> TensorLocationSettings:
        """Set from which size on tensors are kept outside of the chip.

        Args:
            min_elements: The number of elements.

        Returns:
            The settings themselves.

        Raises:
            AssertionError: It is no number from 0 on.
        """
        return self._set_count("minElementsForOffChip", "min_elements_for_off_chip", min_elements)

    def minElementsForReplicatedTensorSharding(self, min_elements: int) -> TensorLocationSettings:
        """Set from which size on tensors are sharded over replicas.

        Args:
            min_elements: The number of elements.

        Returns:
            The settings themselves.

        Raises:
            AssertionError: It is no number from 0 on.
        """
        return self._set_count(
            "minElementsForReplicatedTensorSharding",
            "min_elements_for_replicated_tensor_sharding",
            min_elements,
        )

    def useOnChipStorage(self, use: bool | None = True) -> TensorLocationSettings:
        """Choose whether tensors are kept on the chip.

        Args:
            use: Whether they are; None leaves it open.

        Returns:
            The settings themselves.

        Raises:
            AssertionError: `use` is neither a bool nor None.
        """
        if use is not None:
            check_bool("useOnChipStorage", use)
        self._store("use_on_chip_storage", use)
        return self

    def useReplicatedTensorSharding(self, use: bool = True) -> TensorLocationSettings:
        """Choose whether replicas keep a part of a tensor each.

        Args:
            use: Whether they do.

        Returns:
            The settings themselves.

        Raises:
            AssertionError: `use` is no bool.
        """
        return self._set_bool("useReplicatedTensorSharding", "use_replicated_tensor_sharding", use)

    def useIOTilesToLoad(self, use: bool = True) -> TensorLocationSettings:
        """Choose which tiles load tensors.

        Args:
            use: Whether those for I/O do.

        Returns:
            The settings themselves.

        Raises:
            AssertionError: `use` is no bool.
        """
        return self._set_bool("useIOTilesToLoad", "use_io_tiles_to_load", use)

    def useIOTilesToStore(self, use: bool = True) -> TensorLocationSettings:
        """Choose which tiles store tensors.

        Args:
            use: Whether those for I/O do.

        Returns:
            The settings themselves.

        Raises:
            AssertionError: `use` is no bool.
        """
        return self._set_bool("useIOTilesToStore", "use_io_tiles_to_store", use)

    def _set_bool(self, where: str, name: str, value: bool) -> TensorLocationSettings:
        check_bool(where, value)
        self._store(name, value)
        return self

    def _set_count(self, where: str, name: str, value: int) -> TensorLocationSettings:
        assert isinstance(value, int) and value >= 0, (
            f"{where}: wanted a number of elements; given {value!r}"
        )
        self._store(name, value)
        return self


class _TensorLocationOptions(OptionValues):
    """Where activations, weights, and the state and sums of optimizers are kept.

    Args:
        popart: Where the compiler's options of the group are kept.
    """

    def __init__(self, popart: _PopartOptions) -> None:
        kinds = ("activation", "weight", "optimizer", "accumulator")
        super().__init__({f"location_{kind}": None for kind in kinds})
        self._popart = popart

    @property
    def num_io_tiles(self) -> int:
        """The number of tiles for I/O; 0: none."""
        return int(self._popart.options.get("numIOTiles", 0))

    def numIOTiles(self, num_tiles: int) -> _TensorLocationOptions:
        """Set how many tiles of a device are for I/O.

        Args:
            num_tiles: An even number from 32 to 192.

        Returns:
            The group itself.

        Raises:
            AssertionError: Another number.
        """
        assert isinstance(num_tiles, int) and 32 <= num_tiles <= 192 and num_tiles % 2 == 0, (
            "numIOTiles must be an even number between 32 and 192."
        )
        self._popart.set("numIOTiles", num_tiles)
        return self

    def setActivationLocation(self, location: TensorLocationSettings) -> _TensorLocationOptions:
        """Set where activations are kept.

        Args:
            location: The settings.

        Returns:
            The group itself.

        Raises:
            AssertionError: They are no TensorLocationSettings.
        """
        return self._set_location("location_activation", location)

    def setWeightLocation(self, location: TensorLocationSettings) -> _TensorLocationOptions:
        """Set where weights are kept.

        Args:
            location: The settings.

        Returns:
            The group itself.

        Raises:
            AssertionError: They are no TensorLocationSettings.
        """
        return self._set_location("location_weight", location)

    def setOptimizerLocation(self, location: TensorLocationSettings) -> _TensorLocationOptions:
        """Set where the state of the optimizer is kept.

        Args:
            location: The settings.

        Returns:
            The group itself.

        Raises:
            AssertionError: They are no TensorLocationSettings.
        """
        return self._set_location("location_optimizer", location)

    def setAccumulatorLocation(self, location: TensorLocationSettings) -> _TensorLocationOptions:
        """Set where sums of gradients are kept.

        Args:
            location: The settings.

        Returns:
            The group itself.

        Raises:
            AssertionError: They are no TensorLocationSettings.
        """
        return self._set_location("location_accumulator", location)

    def _set_location(self, name: str, location: object) -> _TensorLocationOptions:
        assert isinstance(location, TensorLocationSettings), (
            f"{name}: wanted a poptorch.TensorLocationSettings; given {location!r}"
        )
        self._store(name, location)
        return self

    def _shown(self) -> dict[str, Any]:
        return {"num_io_tiles": self.num_io_tiles, **self._values}
