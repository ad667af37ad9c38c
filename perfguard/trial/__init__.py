"""Edge: processes. Starts the measured processes of one trial, ends them, and reads what they left.

Must not decide verdicts, and knows nothing of git.
"""
