"""Engines measured over HTTP: server, client and what both say. Stories and edges only through the modules below.

Must not import torch, a model or an engine: the engine is another process with a Python of its own.
"""
