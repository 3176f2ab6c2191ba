"""The conversation's memory: the log and its entries, the view, and the gate that checks every change."""
