"""The lab: fair experiments on attention, from the arms that are compared to the verdict."""
