"""The nightly job: HEAD against a pinned reference, night after night, and a search where something moved.

story.py tells it; plan.py, standing.py and suspecting.py decide, purely; pins.py and acks.py are the two commands.
"""
