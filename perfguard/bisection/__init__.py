"""Which commit changed performance, or none: the story of `bisect`, from revisions to a culprit or PHANTOM.

plan.py says what is searched, story.py tells it, builds.py and readings.py measure, state.py and verdict.py (pure) say
what follows from what is stored.
"""
