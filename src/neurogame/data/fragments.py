"""Fragments of English as a data set: `neurogame_bench.fragments` generates them, and has their grammar."""

from neurogame_bench.fragments import HELD, PHENOMENA, PROBES, Part, generate, parts, probe

__all__ = ["HELD", "PHENOMENA", "PROBES", "Part", "generate", "parts", "probe"]
