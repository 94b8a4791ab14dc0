"""Comparisons with other implementations; what each measures is said in its module."""
