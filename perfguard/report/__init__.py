"""How results look: terminal, Markdown, SVG. The only rich of perfguard. Shows what was decided, decides nothing."""
