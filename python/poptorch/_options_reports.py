"""Options of what is told about a model: names, logs, the progress bar, profiles."""

from __future__ import annotations

import os
from typing import Any, ClassVar, TypeVar

from poptorch._logging import logger
from poptorch._option_values import OptionValues, check_bool, check_positive
from poptorch._options_popart import _PopartOptions, environment_engine_options

Reports = TypeVar("Reports", bound="ReportOptions")


class ReportOptions(OptionValues):
    """Options of what is told about a model."""

    DEFAULTS: ClassVar[dict[str, Any]] = {
        # Empty: "training" or "inference".
        "model_name": "",
        "log_dir": ".",
        "max_repeat_logs": 4,
        "show_compilation_progress_bar": True,
        "module_namescope_enabled": True,
        "relax_optimizer_checks": False,
        "source_location_excludes": [
            "install/poptorch",
            "site-packages/torch",
            "site-packages/poptorch",
        ],
    }

    _Popart: _PopartOptions

    def modelName(self: Reports, name: str) -> Reports:
        """Name the model in reports, which are then in a folder of that name.

        Args:
            name: The name; by default `training` or `inference`.

        Returns:
            The options themselves.

        Raises:
            AssertionError: It is no str.
        """
        self._set("model_name", name)
        return self

    def logDir(self: Reports, log_dir: str | os.PathLike[str]) -> Reports:
        """Choose the folder of error logs and dumps of graphs.

        Args:
            log_dir: The folder, which is made when something is written.

        Returns:
            The options themselves.

        Raises:
            AssertionError: It is no path.
        """
        self._set("log_dir", os.fspath(log_dir) if isinstance(log_dir, os.PathLike) else log_dir)
        return self

    def maxRepeatLogs(self: Reports, max_lines: int | None) -> Reports:
        """Set how often one message is written until its repetitions are muted.

        Args:
            max_lines: How often; None: always.

        Returns:
            The options themselves.

        Raises:
            AssertionError: It is neither an int nor None.
            ValueError: It is below 1.
        """
        if max_lines is None:
            self._store("max_repeat_logs", None)
        else:
            check_positive("maxRepeatLogs", max_lines)
            self._set("max_repeat_logs", max_lines)
        return self

    def showCompilationProgressBar(self: Reports, show: bool = True) -> Reports:
        """Choose whether a bar on stderr shows how far the compilation is.

        Args:
            show: Whether it does; `PoplarExecutor.compilationTime` needs it.

        Returns:
            The options themselves.

        Raises:
            AssertionError: It is no bool.
        """
        self._set("show_compilation_progress_bar", show)
        return self

    def logCycleCount(self: Reports, log_cycle_count: bool) -> Reports:
        """Choose whether `PoplarExecutor.cycleCount` is available.

        Args:
            log_cycle_count: Whether it is.

        Returns:
            The options themselves.

        Raises:
            AssertionError: It is no bool.
        """
        check_bool("logCycleCount", log_cycle_count)
        self._Popart.set("instrumentWithHardwareCycleCounter", log_cycle_count)
        return self

    @property
    def log_cycle_count(self) -> bool:
        """Whether `PoplarExecutor.cycleCount` is available."""
        return bool(self._Popart.options["instrumentWithHardwareCycleCounter"])

    def enableProfiling(
        self: Reports, profile_dir: str | os.PathLike[str] | None = None
    ) -> Reports:
        """Write reports of the model: where its memory and its time go.

        Sets the engine options `autoReport.all`, `autoReport.directory` and
        `debug.allowOutOfMemory`, except those that POPLAR_ENGINE_OPTIONS gives.

        Args:
            profile_dir: The folder, in which each model has one of its name; None: the current
                one.

        Returns:
            The options themselves.

        Raises:
            AssertionError: It is neither a path nor None.
            ValueError: POPLAR_ENGINE_OPTIONS cannot be read.
        """
        folder = "." if profile_dir is None else profile_dir
        assert isinstance(folder, (str, os.PathLike)), (
            f"enableProfiling: wanted a path or None; given {profile_dir!r}"
        )
        wanted = {
            "autoReport.all": "true",
            "autoReport.directory": os.fspath(folder),
            "debug.allowOutOfMemory": "true",
        }
        environment = environment_engine_options()
        for name, value in wanted.items():
            if environment.get(name, value) != value:
                logger.warning(
                    "enableProfiling: %s = %s of POPLAR_ENGINE_OPTIONS stands over %s",
                    name,
                    environment[name],
                    value,
                )
        self._Popart.setEngineOptions(wanted)
        return self

    @property
    def engine_options(self) -> dict[str, str]:
        """The options of the engine: those that were set, and over them POPLAR_ENGINE_OPTIONS."""
        return {**self._Popart.options.get("engineOptions", {}), **environment_engine_options()}

    @property
    def profile_folder(self) -> str | None:
        """The folder for reports; None where none are wanted."""
        options = self.engine_options
        if options.get("autoReport.all", "").lower() not in ("true", "1"):
            return None
        return options.get("autoReport.directory", ".")

    def disableModuleNamescope(self: Reports) -> Reports:
        """Leave the names of modules out of the names of ops.

        Returns:
            The options themselves.
        """
        self._set("module_namescope_enabled", False)
        return self

    def relaxOptimizerAttributesChecks(self: Reports, relax: bool = True) -> Reports:
        """Choose how unexpected attributes of optimizers are told.

        Args:
            relax: Whether in debug messages instead of warnings.

        Returns:
            The options themselves.

        Raises:
            AssertionError: It is no bool.
        """
        self._set("relax_optimizer_checks", relax)
        return self

    def sourceLocationExcludes(self: Reports, excludes: list[str]) -> Reports:
        """Replace what marks source files that messages do not name as the place of an op.

        Args:
            excludes: Parts of the names of such files.

        Returns:
            The options themselves.

        Raises:
            AssertionError: They are no list of str.
        """
        assert isinstance(excludes, list) and all(isinstance(one, str) for one in excludes), (
            f"sourceLocationExcludes: wanted a list of str; given {excludes!r}"
        )
        self._set("source_location_excludes", list(excludes))
        return self

    def appendToLocationExcludes(self: Reports, *excludes: str) -> Reports:
        """Add to what marks source files that messages do not name as the place of an op.

        Args:
            *excludes: Parts of the names of such files.

        Returns:
            The options themselves.

        Raises:
            AssertionError: One is no str.
        """
        for one in excludes:
            assert isinstance(one, str), f"appendToLocationExcludes: wanted str; given {one!r}"
        for one in excludes:
            self._append("source_location_excludes", one)
        return self
