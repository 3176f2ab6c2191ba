"""The state optimiser: shrinks a session's working state before it is saved, and loses nothing.

The public names are in `autocontext.sessions`.
"""
