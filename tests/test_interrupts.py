"""`deferred`: an interrupt waits for the end of the block."""

import signal
import threading

import pytest

from reprokit.interrupts import deferred


def test_an_interrupt_is_raised_after_the_block():
    done = []
    with pytest.raises(KeyboardInterrupt), deferred():
        signal.raise_signal(signal.SIGINT)
        done.append(1)
    assert done == [1]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_an_error_of_the_block_is_not_lost_behind_it():
    with pytest.raises(KeyboardInterrupt) as raised, deferred():
        signal.raise_signal(signal.SIGINT)
        raise ValueError("of the block")
    assert isinstance(raised.value.__context__, ValueError)


def test_a_stop_by_the_system_too():
    seen = []
    before = signal.signal(signal.SIGTERM, lambda *_: seen.append("stop"))
    try:
        with deferred():
            signal.raise_signal(signal.SIGTERM)
            assert not seen
        assert seen == ["stop"]
    finally:
        signal.signal(signal.SIGTERM, before)


def test_in_another_thread_it_does_nothing():
    done = []

    def work() -> None:
        with deferred():
            done.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert done == [signal.default_int_handler]
