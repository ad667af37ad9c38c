def page(t): return ""
