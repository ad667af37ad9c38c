"""How results look: terminal, Markdown. The only rich of perfguard. Shows what was decided, decides nothing."""
