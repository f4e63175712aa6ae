"""The claims to judge of the source texts, and the measured ladder: ``docs/claims.md`` and its two pictures.

``python -m gpusim.validation.claims`` prints the page from the H200's records and the kept predictions.
"""
