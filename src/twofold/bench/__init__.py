"""What `twofold bench` runs. Functions return rows; the command line prints them."""
