"""What is remembered: the log and its entries, the view, and the gate that every change of it passes."""
