"""`deferred`: an interrupt waits for the end of the block."""

import signal
import threading

import pytest

from reprokit.interrupts import deferred


def test_an_interrupt_is_raised_after_the_block_and_hides_no_error():
    done = []
    with pytest.raises(KeyboardInterrupt) as raised, deferred():
        signal.raise_signal(signal.SIGINT)
        done.append(1)
        raise ValueError("of the block")
    assert done == [1] and isinstance(raised.value.__context__, ValueError)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    with pytest.raises(KeyboardInterrupt), deferred():
        signal.raise_signal(signal.SIGINT)


def test_a_stop_by_the_system_waits_too_and_another_thread_has_no_signals():
    seen = []
    before = signal.signal(signal.SIGTERM, lambda *_: seen.append("stop"))

    def work() -> None:
        with deferred():
            seen.append(signal.getsignal(signal.SIGINT))

    try:
        with deferred():
            signal.raise_signal(signal.SIGTERM)
            assert not seen
        assert seen == ["stop"]
    finally:
        signal.signal(signal.SIGTERM, before)
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == ["stop", signal.default_int_handler]
