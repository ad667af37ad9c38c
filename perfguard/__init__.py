"""perfguard: a performance-regression harness for LLM inference. Imports nothing heavy; see `perfguard.cli`."""

__version__ = "0.1.0"
