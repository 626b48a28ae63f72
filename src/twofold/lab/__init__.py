"""The fair experiment: arms, a plan registered beforehand, paired runs, and what may be said of them afterwards."""
