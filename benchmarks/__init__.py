"""Pando beside its peers: same programs, same threads, same machine, interleaved."""
