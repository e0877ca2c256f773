# SPDX-License-Identifier: GPL-2.0
"""The expected result of a command, in a form that can be compared and printed."""
from dataclasses import dataclass

from . import sgio


@dataclass(frozen=True)
class Outcome:
    """Status, host status, the 18 bytes of fixed sense data, the residual, and perhaps data-in."""
    status: int = sgio.GOOD
    host: int = sgio.DID_OK
    sense: bytes = b""
    resid: int = 0
    data: bytes | None = None

    def __str__(self) -> str:
        text = f"status={self.status:#04x} host={self.host:#x} resid={self.resid} "
        text += f"sense={self.sense.hex(' ') or '-'}"
        return text if self.data is None else f"{text} data={self.data.hex()[:96]}"


def outcome(result: sgio.Result, data: bool = False) -> Outcome:
    """The outcome of a result, with its data-in if @data.

    Leaves out the residual of a command that failed: the two drivers that are compared may report
    different residuals although neither moved data. test_state.py checks the residual.
    """
    if result.status != sgio.GOOD or result.host != sgio.DID_OK:
        return Outcome(result.status, result.host, result.sense[:18])
    return Outcome(result.status, result.host, result.sense[:18], result.resid,
                   result.data if data else None)


def good(resid: int = 0) -> Outcome:
    """GOOD."""
    return Outcome(resid=resid)


def check(key: int, asc: int, ascq: int = 0, sks: bytes = bytes(3), resid: int = 0) -> Outcome:
    """CHECK CONDITION with current fixed-format sense data."""
    sense = bytes([0x70, 0, key, 0, 0, 0, 0, 10, 0, 0, 0, 0, asc, ascq, 0]) + sks
    return Outcome(sgio.CHECK_CONDITION, sense=sense, resid=resid)


def invalid_field(byte: int, bit: int | None = None) -> Outcome:
    """INVALID FIELD IN CDB with field pointer: SKSV and C/D are set, and BPV if @bit is given."""
    head = 0xc0 if bit is None else 0xc8 | bit
    return check(sgio.ILLEGAL_REQUEST, 0x24, 0, bytes([head, *byte.to_bytes(2, "big")]))


def invalid_parameter(byte: int, bit: int | None = None) -> Outcome:
    """INVALID FIELD IN PARAMETER LIST: the same with C/D clear."""
    head = 0x80 if bit is None else 0x88 | bit
    return check(sgio.ILLEGAL_REQUEST, 0x26, 0, bytes([head, *byte.to_bytes(2, "big")]))


def host_error(status: int = sgio.DID_ERROR) -> Outcome:
    """The command did not reach the device."""
    return Outcome(host=status)


INVALID_OPCODE = check(sgio.ILLEGAL_REQUEST, 0x20)
LBA_OUT_OF_RANGE = check(sgio.ILLEGAL_REQUEST, 0x21)
LIST_LENGTH_ERROR = check(sgio.ILLEGAL_REQUEST, 0x1a)
SAVING_NOT_SUPPORTED = check(sgio.ILLEGAL_REQUEST, 0x39)
NOT_STARTED = check(sgio.NOT_READY, 0x04, 0x02)
MISCOMPARE = check(sgio.MISCOMPARE, 0x1d)
POWER_ON = check(sgio.UNIT_ATTENTION, 0x29, 0x00)
DEVICE_RESET = check(sgio.UNIT_ATTENTION, 0x29, 0x03)
