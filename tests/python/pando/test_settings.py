"""Settings hold for the body only."""

from __future__ import annotations

import pytest

from pando.settings import SessionSettings, session_settings, use_session_settings


def test_settings_nest_and_end() -> None:
    assert session_settings() == SessionSettings()
    with use_session_settings(num_threads=2) as outer:
        assert outer.num_threads == 2
        with use_session_settings(profile=True):
            assert session_settings() == SessionSettings(num_threads=2, profile=True)
        with pytest.raises(RuntimeError), use_session_settings(num_threads=1):
            raise RuntimeError
        assert session_settings() == outer
    assert session_settings() == SessionSettings()


def test_unknown_settings_are_refused() -> None:
    with pytest.raises(TypeError, match="speed"), use_session_settings(speed=3):
        pass
