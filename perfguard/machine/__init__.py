"""Edge: hardware. What this machine is, and who may measure on it now. The only room that speaks to NVML.

Nothing here runs at import; no NVML context stays open.
"""
