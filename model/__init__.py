"""The built-in subject: a small Mixture-of-Experts decoder with an EAGLE-3 draft. Runners drive it through
`model.entry` only. It must not import perfguard or runners: old commits of it run under newer harnesses.
"""
