"""Servers that look like engines and do what a script says. They are copied into the repositories of tests."""
