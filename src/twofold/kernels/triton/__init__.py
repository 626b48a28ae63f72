"""Fused split attention in Triton. All but `plan` is imported only when it is to run: nothing else imports triton."""
