"""Data in the formats of other tools, recognised by their content: goals, labels, tagged words."""
