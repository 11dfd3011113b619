"""Exercises about Multipath TCP: a question, a description with gaps, and a check that runs it."""

from mptcplab.exercises.checking import Outcome, captures, checked
from mptcplab.exercises.gaps import GAP
from mptcplab.exercises.sheet import Exercise, find, shipped

__all__ = ["GAP", "Exercise", "Outcome", "captures", "checked", "find", "shipped"]
