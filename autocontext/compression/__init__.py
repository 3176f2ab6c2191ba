"""One pass that makes the working memory smaller: its order, its drivers, its lock, its limits and its account."""
