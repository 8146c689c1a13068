"""The speculation playground: see, measure and understand speculative decoding."""

__version__ = "0.1.0"
