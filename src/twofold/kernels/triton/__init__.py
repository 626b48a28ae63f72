"""Fused split attention in Triton. Imported only when it is to run: nothing outside this folder imports triton."""
