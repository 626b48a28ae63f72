"""Reports: one HTML file each that opens anywhere, without a network. Pictures are SVG, written here."""
