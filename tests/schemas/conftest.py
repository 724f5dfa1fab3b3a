"""Limits that tests lower."""

from tests.broker.conftest import Lower, lowered

__all__ = ["Lower", "lowered"]
