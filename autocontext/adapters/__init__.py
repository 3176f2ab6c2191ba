"""Bridges to other message formats and agent frameworks, one module each; the core never imports them."""
