"""The language of a home and phone assistant: goals with their templates, values of the slots, what is out of scope."""
