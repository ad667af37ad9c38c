"""Why do two numbers differ? Pure: records of two runs -> hypotheses with their evidence. Reads and measures nothing.

facts.py takes records apart into fields, influence.py orders them, explanation.py compares, words.py concludes.
"""
