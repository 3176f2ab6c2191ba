"""The tools with which an agent sees and steers its context."""
