def page(t):
    return ""
