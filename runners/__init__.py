"""The measured programs. They always come from the harness's own version, never from the subject.

Import perfguard.protocol, the standard library and (through contract.import_entry) the subject's model; nothing else.
"""
