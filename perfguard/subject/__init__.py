"""Edge: git. Repositories, revisions, checkouts, and the folder they live in. The only room that uses GitPython.

Must not start measured processes, and must never write into the user's repository.
"""
