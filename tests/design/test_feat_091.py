"""The unit tests of the handoff design, as they were written there.

The classes of its two papers share names; the second paper's are `…OfThePlan`.
"""

# The first paper's tests are not typed as strictly as ours.
# mypy: disable-error-code="union-attr"

from unittest.mock import patch

from little_loops.fsm.handoff_handler import (
    HandoffBehavior,
    HandoffHandler,
)
from little_loops.fsm.signal_detector import (
    ERROR_SIGNAL,
    HANDOFF_SIGNAL,
    STOP_SIGNAL,
    SignalDetector,
    SignalPattern,
)


class TestSignalDetector:
    """Tests for signal_detector.py"""

    def test_handoff_detection(self):
        """Detect handoff signal in output."""
        detector = SignalDetector()
        output = "Running check...\nCONTEXT_HANDOFF: Continue from iteration 5\nDone."
        signal = detector.detect_first(output)
        assert signal is not None
        assert signal.signal_type == "handoff"
        assert signal.payload == "Continue from iteration 5"

    def test_error_detection(self):
        """Detect error signal in output."""
        detector = SignalDetector()
        output = "Processing...\nFATAL_ERROR: Database connection failed"
        signal = detector.detect_first(output)
        assert signal.signal_type == "error"
        assert signal.payload == "Database connection failed"

    def test_stop_detection(self):
        """Detect stop signal in output."""
        detector = SignalDetector()
        output = "LOOP_STOP: User requested termination"
        signal = detector.detect_first(output)
        assert signal.signal_type == "stop"

    def test_no_signal(self):
        """Normal output without signals."""
        detector = SignalDetector()
        output = "All checks passed."
        signal = detector.detect_first(output)
        assert signal is None

    def test_multiple_signals(self):
        """Detect all signals in output."""
        detector = SignalDetector()
        output = "CONTEXT_HANDOFF: foo\nFATAL_ERROR: bar"
        signals = detector.detect(output)
        assert len(signals) == 2

    def test_custom_pattern(self):
        """Custom signal patterns work."""
        custom = SignalPattern("custom", r"MY_SIGNAL:\s*(.+)")
        detector = SignalDetector(patterns=[custom])
        signal = detector.detect_first("MY_SIGNAL: hello")
        assert signal.signal_type == "custom"


class TestHandoffHandler:
    """Tests for handoff_handler.py"""

    def test_terminate_behavior(self):
        """Terminate returns without spawning."""
        handler = HandoffHandler(HandoffBehavior.TERMINATE)
        result = handler.handle("test-loop", "continuation prompt")
        assert result.behavior == HandoffBehavior.TERMINATE
        assert result.spawned_process is None

    def test_pause_behavior(self):
        """Pause returns without spawning."""
        handler = HandoffHandler(HandoffBehavior.PAUSE)
        result = handler.handle("test-loop", "continuation prompt")
        assert result.behavior == HandoffBehavior.PAUSE
        assert result.continuation_prompt == "continuation prompt"
        assert result.spawned_process is None

    def test_spawn_behavior(self, mocker):
        """Spawn launches Claude process."""
        mock_popen = mocker.patch("subprocess.Popen")
        handler = HandoffHandler(HandoffBehavior.SPAWN)
        result = handler.handle("test-loop", "continuation prompt")
        assert result.behavior == HandoffBehavior.SPAWN
        mock_popen.assert_called_once()
        assert "claude" in mock_popen.call_args[0][0]


class TestSignalPatternOfThePlan:
    """Tests for SignalPattern class."""

    def test_handoff_pattern_matches(self) -> None:
        """HANDOFF_SIGNAL matches CONTEXT_HANDOFF: with payload."""
        signal = HANDOFF_SIGNAL.search("CONTEXT_HANDOFF: Continue from iteration 5")
        assert signal is not None
        assert signal.signal_type == "handoff"
        assert signal.payload == "Continue from iteration 5"

    def test_error_pattern_matches(self) -> None:
        """ERROR_SIGNAL matches FATAL_ERROR: with payload."""
        signal = ERROR_SIGNAL.search("FATAL_ERROR: Database connection failed")
        assert signal is not None
        assert signal.signal_type == "error"
        assert signal.payload == "Database connection failed"

    def test_stop_pattern_matches(self) -> None:
        """STOP_SIGNAL matches LOOP_STOP: with optional payload."""
        signal = STOP_SIGNAL.search("LOOP_STOP: User requested")
        assert signal is not None
        assert signal.signal_type == "stop"
        assert signal.payload == "User requested"

    def test_custom_pattern(self) -> None:
        """Custom pattern works."""
        custom = SignalPattern("custom", r"MY_SIGNAL:\s*(.+)")
        signal = custom.search("MY_SIGNAL: hello world")
        assert signal is not None
        assert signal.signal_type == "custom"
        assert signal.payload == "hello world"


class TestSignalDetectorOfThePlan:
    """Tests for SignalDetector class."""

    def test_detect_first_handoff(self) -> None:
        """Detect handoff signal in output."""
        detector = SignalDetector()
        output = "Running check...\nCONTEXT_HANDOFF: Continue from iteration 5\nDone."
        signal = detector.detect_first(output)
        assert signal is not None
        assert signal.signal_type == "handoff"
        assert signal.payload == "Continue from iteration 5"

    def test_detect_first_error(self) -> None:
        """Detect error signal in output."""
        detector = SignalDetector()
        output = "Processing...\nFATAL_ERROR: Database connection failed"
        signal = detector.detect_first(output)
        assert signal is not None
        assert signal.signal_type == "error"
        assert signal.payload == "Database connection failed"

    def test_no_signal(self) -> None:
        """Normal output without signals."""
        detector = SignalDetector()
        output = "All checks passed."
        signal = detector.detect_first(output)
        assert signal is None

    def test_detect_multiple(self) -> None:
        """Detect all signals in output."""
        detector = SignalDetector()
        output = "CONTEXT_HANDOFF: foo\nFATAL_ERROR: bar"
        signals = detector.detect(output)
        assert len(signals) == 2

    def test_multiline_output(self) -> None:
        """Finds signal in long multiline output."""
        detector = SignalDetector()
        output = """
        Processing issue BUG-001...
        Work completed successfully.
        CONTEXT_HANDOFF: Ready for fresh session
        Cleaning up resources.
        """
        signal = detector.detect_first(output)
        assert signal is not None
        assert signal.signal_type == "handoff"

    def test_custom_patterns_only(self) -> None:
        """Custom patterns replace defaults."""
        custom = SignalPattern("custom", r"CUSTOM:\s*(.+)")
        detector = SignalDetector(patterns=[custom])

        # Should not detect default patterns
        assert detector.detect_first("CONTEXT_HANDOFF: test") is None

        # Should detect custom pattern
        signal = detector.detect_first("CUSTOM: value")
        assert signal is not None
        assert signal.signal_type == "custom"


class TestHandoffHandlerOfThePlan:
    """Tests for HandoffHandler class."""

    def test_terminate_behavior(self) -> None:
        """Terminate returns without spawning."""
        handler = HandoffHandler(HandoffBehavior.TERMINATE)
        result = handler.handle("test-loop", "continuation prompt")
        assert result.behavior == HandoffBehavior.TERMINATE
        assert result.continuation_prompt == "continuation prompt"
        assert result.spawned_process is None

    def test_pause_behavior(self) -> None:
        """Pause returns without spawning."""
        handler = HandoffHandler(HandoffBehavior.PAUSE)
        result = handler.handle("test-loop", "continuation prompt")
        assert result.behavior == HandoffBehavior.PAUSE
        assert result.continuation_prompt == "continuation prompt"
        assert result.spawned_process is None

    def test_spawn_behavior(self) -> None:
        """Spawn launches Claude process."""
        with patch("subprocess.Popen") as mock_popen:
            handler = HandoffHandler(HandoffBehavior.SPAWN)
            result = handler.handle("test-loop", "continuation prompt")

            assert result.behavior == HandoffBehavior.SPAWN
            mock_popen.assert_called_once()
            cmd = mock_popen.call_args[0][0]
            assert "claude" in cmd
            assert "-p" in cmd

    def test_default_behavior_is_pause(self) -> None:
        """Default behavior is pause."""
        handler = HandoffHandler()
        assert handler.behavior == HandoffBehavior.PAUSE

    def test_none_continuation(self) -> None:
        """Handles None continuation prompt."""
        handler = HandoffHandler(HandoffBehavior.PAUSE)
        result = handler.handle("test-loop", None)
        assert result.continuation_prompt is None


class TestTheListing:
    """What the listing fixes beyond the tests: how the process is started."""

    def test_how_the_session_is_started(self, mocker):
        import subprocess

        mock_popen = mocker.patch("subprocess.Popen")
        HandoffHandler(HandoffBehavior.SPAWN).handle("test-loop", "continuation prompt")
        mock_popen.assert_called_once_with(
            [
                "claude",
                "-p",
                "Continue loop execution. Run: ll-loop resume test-loop\n\ncontinuation prompt",
            ],
            text=True,
            start_new_session=True,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            stdin=subprocess.DEVNULL,
        )
