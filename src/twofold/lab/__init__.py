"""The fair experiment: a plan registered beforehand, paired runs, and what may be said of them afterwards."""
