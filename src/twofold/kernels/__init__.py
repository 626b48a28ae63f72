"""Pure functions on tensors. No nn.Module, no config, no file, no printing: see DESIGN.md section 3."""
