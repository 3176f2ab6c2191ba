"""What happens when something fails, is given up or comes from several sides at once."""
