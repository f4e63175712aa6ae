"""Measured records and what is compared with them; imported as ``gpusim.validation``.

``measurements/<gpu>/`` holds what the profiler said, with how it was measured.
"""
